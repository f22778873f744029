"""Where data comes from: a file or a folder, the Hub, or memory; and which of its rows cannot be used."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .file_formats import FILE_FORMATS, find_text_files, without_gz

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, DatasetDict, IterableDataset

logger = logging.getLogger(__name__)

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev"), "test": ("test",)}
KEPT, NO_LABEL, NOT_A_STRING, EMPTY = "kept", "without a label", "not a string", "empty"  # what becomes of a row
SINGLE_SENTENCE = "single sentence"
REASONS = (NO_LABEL, NOT_A_STRING, EMPTY, SINGLE_SENTENCE)  # to drop a row, in the order in which they are told


def local_path(source: Any, csv_separator: str | None, encoding: str | None) -> Path | None:
    """The file or folder that a source is; None for the Hub and data in memory, which take no options for files."""
    if isinstance(source, str | Path):
        if Path(source).exists():
            return Path(source)
        refuse_missing_file(str(source))
    for name, value in (("csv_separator", csv_separator), ("encoding", encoding)):
        if value is not None:
            place = repr(source) if isinstance(source, str) else f"a {type(source).__name__}"
            raise ValueError(f"{name}={value!r} is for files, and {place} is none: leave it out.")
    return None


def refuse_mistyped_path(name: str) -> None:
    """Refuse what can only be a path, or is almost the name of a folder here, before the Hub is asked for it."""
    path = Path(name)
    if path.exists():
        return
    siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    cutoff = 0.75 if path.suffix else 0.85  # a name on the Hub seldom has an ending, and one of a file is short
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=cutoff)
    if near or path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2:
        hint = f" Did you mean {str(path.parent / near[0])!r}?" if near else ""
        raise FileNotFoundError(f"There is no file or folder {name!r}.{hint}")


def refuse_missing_file(source: str) -> None:
    """Refuse what can only be a file or a folder and is not there."""
    refuse_mistyped_path(source)
    if Path(source).suffix.lower() in {*FILE_FORMATS, ".gz"}:
        raise FileNotFoundError(f"There is no file {source!r}.")


def load_from_hub(name: str, *arguments: Any, **options: Any) -> Any:
    """``datasets.load_dataset``, whose errors also say that the name may be a mistyped path."""
    import datasets

    try:
        return datasets.load_dataset(name, *arguments, **options)
    except (ConnectionError, datasets.exceptions.DatasetNotFoundError) as error:
        problem = f"{name!r} is no file or folder here, nor on the Hub, if that could be reached"
        raise OSError(f"{problem}: check the spelling. ({str(error).splitlines()[0]})") from error


def find_splits(
    source: str | Path | Dataset | DatasetDict | pd.DataFrame,
    config_name: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> Mapping[str, Dataset | Path]:
    """The splits of a source by name: rows in memory, or a path that is not read yet.

    A file, a data set and a DataFrame are the training set. In a folder, files are named after their split; or it has a
    folder of ``.txt`` files for each class, or such a folder for each split.
    """
    path = local_path(source, csv_separator, encoding)
    if path is not None:
        return {"train": path} if path.is_file() else _splits_in(path)
    if isinstance(source, dict):
        return {name: as_dataset(rows) for name, rows in source.items()}
    if isinstance(source, str | Path):
        return load_from_hub(str(source), config_name)
    return {"train": as_dataset(source)}


def _splits_in(folder: Path) -> dict[str, Path]:
    known = set(chain(*SPLIT_NAMES.values()))
    splits: dict[str, Path] = {}
    entries = sorted(folder.iterdir())
    folders = [entry for entry in entries if _holds_texts(entry)]
    of_splits = [entry for entry in folders if entry.name in known and any(map(_holds_texts, entry.iterdir()))]
    for entry in [entry for entry in entries if entry.is_file()] + of_splits:
        name = without_gz(entry).stem if entry.is_file() else entry.name
        if entry.is_file() and without_gz(entry).suffix.lower() not in FILE_FORMATS:
            if name in known:
                logger.warning(f"{entry} is not read. Known endings: {sorted(FILE_FORMATS)}, also with .gz.")
        elif name in splits:
            raise ValueError(f"{splits[name]} and {entry} are both {name!r}: keep one of them in the folder.")
        else:
            splits[name] = entry
    return splits if "train" in splits or of_splits or not folders else {**splits, "train": folder}


def _holds_texts(folder: Path) -> bool:
    return folder.is_dir() and next(find_text_files(folder), None) is not None


def as_dataset(source: Dataset | IterableDataset | pd.DataFrame | pd.Series) -> Dataset | IterableDataset:
    """A data set as it is; or the rows of a DataFrame without its index, or the texts of a Series as ``text``."""
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


def describe_dropped(outcomes: Counter[str]) -> str:
    """How many rows were dropped for which reason, for the log; empty if none were."""
    return ", ".join(f"{outcomes[reason]} {reason}" for reason in REASONS if outcomes[reason])


def outcome_of(texts: Iterable[Any]) -> str:
    """What becomes of a row with these texts, of which None counts as empty."""
    texts = list(texts)
    if not all(isinstance(text, str | None) for text in texts):
        return NOT_A_STRING
    return KEPT if all(text and text.strip() for text in texts) else EMPTY


def keep_usable(rows: Dataset, outcomes: list[str]) -> Dataset:
    """The rows whose outcome is ``KEPT``; the data set itself if all are, so that no indices are needed."""
    kept = np.flatnonzero(np.asarray(outcomes) == KEPT)
    return rows if len(kept) == len(outcomes) else rows.select(kept)


def refuse_other_types(feature: Any, column: str, option: str) -> None:
    """Refuse a column that does not hold strings, by its feature."""
    if getattr(feature, "dtype", None) not in ("string", "large_string", "null"):
        raise ValueError(f"Column {column!r} holds {feature}, not strings: choose {option}.")
