"""load_documents: texts from the Hub, from files, or from a folder, as a data set with train and test."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .paths import refuse_mistyped_path

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDataset

logger = logging.getLogger(__name__)

STREAM_BUFFER = 1_000  # documents
ROWS_TO_LOOK_AT = 100  # for the columns of JSON lines, of which each row may have others
SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev"), "test": ("test",)}
FILE_FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}


def load_documents(
    source: str,
    config_name: str | None = None,
    split: str = "train",
    streaming: bool = False,
    test_size: int = 500,
    seed: int = 0,
) -> dict[str, Dataset | IterableDataset]:
    """Load unlabelled documents from wherever they are.

    Args:
        source: A data set on the Hub; a ``.jsonl``, ``.json``, ``.csv``, ``.parquet`` or ``.txt`` file (also
            compressed with gzip); or a folder. A ``.txt`` file is a document a line when given by itself, and one
            document when it lies in a folder, where ``.txt`` files are looked for at any depth.
        config_name: The configuration of a data set on the Hub.
        split: The split of it.
        streaming: Read as you go instead of downloading and converting first. The training documents are shuffled
            through a buffer of 1,000, so that a batch does not hold neighbors only; each data loader worker shuffles
            what it reads, so their order depends on the number of workers.
        test_size: Documents to hold out: drawn at random, but at most a tenth of all; from a stream, the first ones,
            which are read at once. 0 holds none out.
        seed: Decides which documents are held out, and the order of a stream.

    Returns:
        ``train`` and, with ``test_size`` above 0, ``test``, which is a ``Dataset`` in any case.

    Raises:
        FileNotFoundError: If the source looks like a path and there is nothing there, or a folder holds no text.
        ValueError: If the file's format is unknown, or there are too few documents to hold any out.

    Example:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for i in range(20):
        ...     _ = (folder / f"{i}.txt").write_text(f"Document {i}. It has two sentences.")
        >>> documents = load_documents(str(folder))
        >>> {name: len(split) for name, split in documents.items()}
        {'train': 18, 'test': 2}
    """
    import datasets

    path = Path(source)
    if path.is_dir():
        texts = sorted(str(file) for file in path.rglob("*.txt"))
        if not texts:
            raise FileNotFoundError(f"The folder {source} holds no .txt file. Give a file, or a data set on the Hub.")
        loaded = datasets.load_dataset(
            "text", data_files=texts, sample_by="document", split="train", streaming=streaming
        )
    elif path.is_file():
        loaded = datasets.load_dataset(file_format(path), data_files=str(path), split="train", streaming=streaming)
    else:
        refuse_missing_file(source)
        loaded = datasets.load_dataset(source, config_name, split=split, streaming=streaming)
    return _hold_out(loaded, test_size, seed)


def find_splits(source: str | Path | DatasetDict, config_name: str | None = None) -> Mapping[str, Dataset | Path]:
    """Find the splits that a source has. What lies in files is not read yet.

    Args:
        source: A data set on the Hub, or one that is loaded already; a file, which is the training set; or a folder
            with files named after their split.
        config_name: The configuration of a data set on the Hub.

    Returns:
        For each split its file, or its rows.

    Raises:
        FileNotFoundError: If the source looks like a path and there is nothing there.
        ValueError: If a split is there in two files.

    Example:

        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("train.jsonl.gz", "test.csv"):
        ...     (folder / name).touch()
        >>> {split: file.name for split, file in find_splits(folder).items()}
        {'test': 'test.csv', 'train': 'train.jsonl.gz'}
    """
    import datasets

    if isinstance(source, dict):
        return source
    path = Path(source)
    if path.is_file():
        return {"train": path}
    if not path.is_dir():
        refuse_missing_file(str(source))
        return datasets.load_dataset(str(source), config_name)
    splits: dict[str, Path] = {}
    for file in sorted(file for file in path.iterdir() if file.is_file()):
        name = Path(file.name.removesuffix(".gz"))
        if name.suffix not in FILE_FORMATS:
            if name.stem in chain(*SPLIT_NAMES.values()):
                logger.warning(f"{file} is not read. Known endings: {sorted(FILE_FORMATS)}, also with .gz.")
        elif name.stem in splits:
            raise ValueError(f"{splits[name.stem]} and {file} are both {name.stem!r}: keep one of them in the folder.")
        else:
            splits[name.stem] = file
    return splits


def file_format(path: Path) -> str:
    """Tell from a file's ending what ``datasets`` calls its format.

    Args:
        path: The file; it is not opened.

    Returns:
        ``"json"``, ``"csv"``, ``"parquet"`` or ``"text"``.

    Raises:
        ValueError: If the ending is none of those known.

    Example:

        >>> file_format(Path("train.jsonl.gz"))
        'json'
    """
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in FILE_FORMATS:
        raise ValueError(f"The format of {path} is unknown. Known endings: {sorted(FILE_FORMATS)}, also with .gz.")
    return FILE_FORMATS[suffix]


def find_columns(file: Path) -> list[str]:
    """The columns of a file, without reading all of it: in JSON those of the first rows.

    Args:
        file: A file in one of the known formats.

    Returns:
        The names of the columns.

    Raises:
        ValueError: If the format is unknown or the file cannot be read.

    Example:

        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "rows.jsonl"
        >>> _ = file.write_text('{"text": "One."}' + chr(10) + '{"text": "Two.", "label": 1}')
        >>> find_columns(file)
        ['text', 'label']
    """
    if file_format(file) == "json":
        return list(dict.fromkeys(chain.from_iterable(islice(read_json_rows(file), ROWS_TO_LOOK_AT))))
    import datasets

    rows = datasets.load_dataset(file_format(file), data_files=str(file), split="train", streaming=True)
    return list(next(iter(rows), {}))


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
    if Path(source).suffix in {*FILE_FORMATS, ".gz"}:
        raise FileNotFoundError(f"There is no file {source!r}.")


def read_json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines, or one JSON list of objects, as they are.

    ``datasets`` refuses lone surrogates, makes dates of strings that look like dates, and infers types from the first
    rows.

    Args:
        path: The file, compressed with gzip if it ends with ``.gz``.

    Yields:
        The objects.

    Raises:
        ValueError: If a row is not JSON, or not an object.

    Example:

        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "dates.jsonl"
        >>> _ = file.write_text('{"text": "2024-01-01", "label": 1}')
        >>> list(read_json_rows(file))
        [{'text': '2024-01-01', 'label': 1}]
    """
    number = 0
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        lines = (line for line in file if line.strip())
        try:
            first = next(lines, "")
            if first.lstrip().startswith("["):
                rows = json.loads(first + "".join(lines))
            else:
                rows = (json.loads(line) for line in chain([first], lines) if line)
            for number, row in enumerate(rows, start=1):
                if not isinstance(row, dict):
                    raise ValueError(f"Row {number} of {path.name} is {str(row)[:80]!r}, not an object with columns.")
                yield row
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"Row {number + 1} of {path.name} is not JSON in UTF-8: {error}.") from error


def _hold_out(dataset: Dataset | IterableDataset, test_size: int, seed: int) -> dict[str, Dataset | IterableDataset]:
    import datasets

    if isinstance(dataset, datasets.IterableDataset):
        held_out = list(dataset.take(test_size))
        if len(held_out) < test_size:
            raise ValueError(
                f"The stream ends after {len(held_out)} documents, and test_size={test_size} would hold out all of "
                f"them: lower test_size (to {len(held_out) // 10}, say), or do without streaming."
            )
        # By content, not by position: each data loader worker skips in its own shards.
        train = dataset.filter(_NotAmong({_fingerprint(row) for row in held_out})) if held_out else dataset
        splits = {"train": train.shuffle(seed=seed, buffer_size=STREAM_BUFFER)}
        return {**splits, "test": datasets.Dataset.from_list(held_out)} if held_out else splits
    if test_size == 0:
        return datasets.DatasetDict({"train": dataset})
    if len(dataset) < 20:
        raise ValueError(
            f"{len(dataset)} documents are too few to hold any out for evaluation: give more, or set test_size=0. "
            "(A .txt file is a document a line; the .txt files in a folder are a document each.)"
        )
    return dataset.train_test_split(test_size=min(test_size, len(dataset) // 10), seed=seed)


def _fingerprint(row: dict[str, Any]) -> bytes:
    return hashlib.blake2b(repr(sorted(row.items())).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _NotAmong:
    """Whether a row is none of those with the given fingerprints."""

    def __init__(self, fingerprints: set[bytes]) -> None:
        self.fingerprints = fingerprints

    def __call__(self, row: dict[str, Any]) -> bool:
        return _fingerprint(row) not in self.fingerprints
