"""load_documents: texts from the Hub, from files, or from a folder, as a data set with train and test."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import FILE_FORMATS, find_text_files, load_file, naming, without_gz
from .holding_out import fingerprint, fingerprints_of, hold_out
from .paths import refuse_mistyped_path

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, DatasetDict, IterableDataset

logger = logging.getLogger(__name__)

STREAM_BUFFER = 1_000  # documents
SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev"), "test": ("test",)}


def load_documents(
    source: str | Path | Dataset | IterableDataset | pd.DataFrame | pd.Series,
    config_name: str | None = None,
    split: str = "train",
    streaming: bool = False,
    test_size: int = 500,
    seed: int = 0,
    *,
    text_column: str = "text",
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, Dataset | IterableDataset]:
    """Load unlabeled documents from wherever they are.

    Args:
        source: A data set on the Hub; a ``.jsonl``, ``.json``, ``.csv``, ``.tsv``, ``.parquet`` or ``.txt`` file (also
            compressed with gzip); a folder; a data set that is loaded already; or a pandas DataFrame, or a Series of
            texts. A ``.txt`` file is a document a line when given by itself, and one document when it lies in a folder,
            where ``.txt`` files are looked for at any depth.
        config_name: The configuration of a data set on the Hub.
        split: The split of it.
        streaming: Read as you go instead of downloading and converting first. The training documents are shuffled
            through a buffer of 1,000, so that a batch does not hold neighbors only; each data loader worker shuffles
            what it reads, so their order depends on the number of workers.
        test_size: Documents to hold out: drawn at random, but at most a tenth of all; from a stream, the first ones,
            which are read at once. 0 holds none out. Of documents with the same text none is in ``train`` if one is in
            ``test``.
        seed: Decides which documents are held out, and the order of a stream.
        text_column: The column by which documents are the same. Where there is none of this name, all columns are.
        csv_separator: What separates the columns of a ``.csv`` file. None: a comma, in ``.tsv`` a tab.
        encoding: Of text files, such as ``"cp1252"``. None: UTF-8, or UTF-16 where a file begins with its byte order
            mark.

    Returns:
        ``train`` and, with ``test_size`` above 0, ``test``, which is a ``Dataset`` in any case.

    Raises:
        FileNotFoundError: If the source looks like a path and there is nothing there, or a folder holds no text.
        ValueError: If a file's format is unknown, it cannot be read or is empty, or there are too few documents to hold
            any out.

    Example:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for i in range(20):
        ...     _ = (folder / f"{i}.txt").write_text(f"Document {i}. It has two sentences.")
        >>> documents = load_documents(folder)
        >>> {name: len(split) for name, split in documents.items()}
        {'train': 18, 'test': 2}
    """
    import datasets

    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and path.exists():
        loaded = load_file(path, streaming, csv_separator, encoding)
        loaded = loaded.select_columns(["text"]) if path.is_dir() else loaded
        with naming(path):  # a stream is read here
            return _hold_out(loaded, test_size, seed, text_column)
    _refuse_file_options(source, csv_separator, encoding)
    if path is not None:
        refuse_missing_file(str(source))
        loaded = datasets.load_dataset(str(source), config_name, split=split, streaming=streaming)
    else:
        loaded = as_dataset(source)
        loaded = loaded.to_iterable_dataset() if streaming and isinstance(loaded, datasets.Dataset) else loaded
    return _hold_out(loaded, test_size, seed, text_column)


def find_splits(
    source: str | Path | Dataset | DatasetDict | pd.DataFrame,
    config_name: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> Mapping[str, Dataset | Path]:
    """Find the splits that a source has. What lies in files is not read yet.

    Args:
        source: A data set on the Hub; a data set or a DataFrame, which is the training set, or a dictionary of them by
            split; a file, which is the training set; a folder with files named after their split; or a folder with a
            folder of ``.txt`` files for each class, or with such a folder for each split.
        config_name: The configuration of a data set on the Hub.
        csv_separator: Refused where there are no files.
        encoding: Refused where there are no files.

    Returns:
        For each split its file, the folder with its classes, or its rows.

    Raises:
        FileNotFoundError: If the source looks like a path and there is nothing there.
        ValueError: If a split is there twice.

    Example:

        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("train.jsonl.gz", "test.csv"):
        ...     (folder / name).touch()
        >>> {split: file.name for split, file in find_splits(folder).items()}
        {'test': 'test.csv', 'train': 'train.jsonl.gz'}
    """
    import datasets

    path = Path(source) if isinstance(source, str | Path) else None
    if path is None or not path.exists():
        _refuse_file_options(source, csv_separator, encoding)
    if isinstance(source, dict):
        return {name: as_dataset(rows) for name, rows in source.items()}
    if path is None:
        return {"train": as_dataset(source)}
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        refuse_missing_file(str(source))
        return datasets.load_dataset(str(source), config_name)
    known = set(chain(*SPLIT_NAMES.values()))
    splits: dict[str, Path] = {}
    folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir() and next(find_text_files(entry), None)]
    of_splits = [folder for folder in folders if folder.name in known and _has_class_folders(folder)]
    for file in sorted(entry for entry in path.iterdir() if entry.is_file()) + of_splits:
        name = without_gz(file).stem if file.is_file() else file.name
        if file.is_file() and without_gz(file).suffix.lower() not in FILE_FORMATS:
            if name in known:
                logger.warning(f"{file} is not read. Known endings: {sorted(FILE_FORMATS)}, also with .gz.")
        elif name in splits:
            raise ValueError(f"{splits[name]} and {file} are both {name!r}: keep one of them in the folder.")
        else:
            splits[name] = file
    return splits if "train" in splits or of_splits or not folders else {**splits, "train": path}


def as_dataset(source: Dataset | IterableDataset | pd.DataFrame | pd.Series) -> Dataset | IterableDataset:
    """Take a data set as it is, and the rows of a DataFrame, or the texts of a Series, as one.

    Args:
        source: What is in memory.

    Returns:
        A data set. The texts of a Series are its column ``text``; an index is left out.

    Raises:
        TypeError: If it is something else.
        ValueError: If a column of a DataFrame mixes types.

    Example:

        >>> import pandas as pd
        >>> as_dataset(pd.Series(["One text.", "Another."]))["text"][:]
        ['One text.', 'Another.']
    """
    import datasets
    import pandas as pd
    import pyarrow as pa

    if isinstance(source, datasets.Dataset | datasets.IterableDataset):
        return source
    frame = source.to_frame("text") if isinstance(source, pd.Series) else source
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"Give a path, a name on the Hub, a data set or a DataFrame, not {type(source).__name__}.")
    try:
        return datasets.Dataset.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"The {type(source).__name__} mixes types in a column: {error}. Make them one.") from error


def _has_class_folders(folder: Path) -> bool:
    return any(entry.is_dir() and next(find_text_files(entry), None) for entry in folder.iterdir())


def _refuse_file_options(source: Any, csv_separator: str | None, encoding: str | None) -> None:
    for name, value in (("csv_separator", csv_separator), ("encoding", encoding)):
        if value is not None:
            if isinstance(source, str):
                refuse_missing_file(source)  # which it is meant to be
            place = repr(source) if isinstance(source, str) else f"a {type(source).__name__}"
            raise ValueError(f"{name}={value!r} is for files, and {place} is none: leave it out.")


def refuse_missing_file(source: str) -> None:
    """Refuse what can only be a file or a folder and is not there, before the Hub is asked for it.

    Args:
        source: What is neither a file nor a folder here.

    Raises:
        FileNotFoundError: If the source looks like a path, or ends like a file.

    Example:

        >>> refuse_missing_file("nyu-mll/glue")
        >>> refuse_missing_file("reviews.csv")
        Traceback (most recent call last):
        FileNotFoundError: There is no file 'reviews.csv'.
    """
    refuse_mistyped_path(source)
    if Path(source).suffix.lower() in {*FILE_FORMATS, ".gz"}:
        raise FileNotFoundError(f"There is no file {source!r}.")


def _hold_out(
    dataset: Dataset | IterableDataset, test_size: int, seed: int, text_column: str = "text"
) -> dict[str, Dataset | IterableDataset]:
    import datasets

    if isinstance(dataset, datasets.IterableDataset):
        held_out = list(dataset.take(test_size))
        if len(held_out) < test_size:
            raise ValueError(
                f"The stream ends after {len(held_out)} documents, and test_size={test_size} would hold out all of "
                f"them: lower test_size (to {len(held_out) // 10}, say), or do without streaming."
            )
        # By content, not by position: each data loader worker skips in its own shards.
        train = dataset.filter(_NotAmong(held_out, text_column)) if held_out else dataset
        splits = {"train": train.shuffle(seed=seed, buffer_size=STREAM_BUFFER)}
        return {**splits, "test": datasets.Dataset.from_list(held_out)} if held_out else splits
    if test_size == 0:
        return datasets.DatasetDict({"train": dataset})
    if len(dataset) < 20:
        raise ValueError(
            f"{len(dataset)} documents are too few to hold any out for evaluation: give more, or set test_size=0. "
            "(A .txt file is a document a line; the .txt files in a folder are a document each.)"
        )
    fingerprints = fingerprints_of(dataset, _identifying(dataset.column_names, text_column))
    repeated = len(dataset) - len(set(fingerprints.tolist()))
    kept, held_out = hold_out(fingerprints, min(test_size, len(dataset) // 10), seed)
    if len(held_out) == 0:
        raise ValueError(
            f"{repeated} of {len(dataset)} documents repeat another one, and there is none to hold out that is not in "
            "the training set too: give more different ones, raise test_size, or set test_size=0."
        )
    if repeated:
        logger.info(
            f"{repeated} of {len(dataset)} documents repeat another one. None of them is in both train and test."
        )
    return datasets.DatasetDict({"train": dataset.select(kept), "test": dataset.select(held_out)})


def _identifying(columns: list[str], text_column: str) -> list[str]:
    return [text_column] if text_column in columns else sorted(columns)


class _NotAmong:
    """Whether a row is none of those given."""

    def __init__(self, rows: list[dict[str, Any]], text_column: str) -> None:
        self.columns = _identifying(list(rows[0]), text_column)
        self.fingerprints = {self._fingerprint(row) for row in rows}

    def __call__(self, row: dict[str, Any]) -> bool:
        return self._fingerprint(row) not in self.fingerprints

    def _fingerprint(self, row: dict[str, Any]) -> int:
        return fingerprint(row.get(column) for column in self.columns)
