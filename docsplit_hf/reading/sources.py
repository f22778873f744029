"""Open a source of data (a file or folder, the Hub, memory), and drop unusable rows."""

from __future__ import annotations

import difflib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .document_folders import holds_documents, is_pattern
from .file_formats import FILE_FORMATS, holds_text_files, without_gz

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, DatasetDict, IterableDataset

logger = logging.getLogger(__name__)

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev"), "test": ("test",)}
# Outcomes of a row: kept, or the reason to drop it.
KEPT = "kept"
NO_LABEL = "without a label"
NOT_A_STRING = "not a string"
EMPTY = "empty"
SINGLE_SENTENCE = "single sentence"
DROP_REASONS = (NO_LABEL, NOT_A_STRING, EMPTY, SINGLE_SENTENCE)  # in their order in the log


def local_path(source: Any, csv_separator: str | None, encoding: str | None) -> Path | None:
    """Path of a source that is a file or folder; None for the Hub and data in memory, which refuse file options."""
    if isinstance(source, str | Path):
        if Path(source).exists() or is_pattern(source):
            return Path(source)
        refuse_missing_file(str(source))
    for name, value in (("csv_separator", csv_separator), ("encoding", encoding)):
        if value is not None:
            place = repr(source) if isinstance(source, str) else f"a {type(source).__name__}"
            raise ValueError(f"{name}={value!r} is for files, and {place} is not a file: leave it out.")
    return None


def refuse_mistyped_path(name: str) -> None:
    """Refuse a missing path, or a name similar to that of a folder here, before the Hub is asked for it."""
    path = Path(name)
    if path.exists():
        return
    siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    cutoff = 0.75 if path.suffix else 0.85  # a name with an ending is more likely a file than a name on the Hub
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=cutoff)
    if near or path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2:
        hint = f" Did you mean {str(path.parent / near[0])!r}?" if near else ""
        raise FileNotFoundError(f"There is no file or folder {name!r}.{hint}")


def refuse_missing_file(source: str) -> None:
    """Refuse the path of a missing file or folder."""
    refuse_mistyped_path(source)
    if Path(source).suffix.lower() in {*FILE_FORMATS, ".gz"}:
        raise FileNotFoundError(f"There is no file {source!r}.")


def load_from_hub(name: str, *arguments: Any, **options: Any) -> Any:
    """Call ``datasets.load_dataset``, with errors that also mention a mistyped path."""
    import datasets
    from huggingface_hub.utils import httpx

    try:
        _ask_hub_once(name)
        return datasets.load_dataset(name, *arguments, **options)
    except (ConnectionError, httpx.TransportError, datasets.exceptions.DatasetNotFoundError) as error:
        problem = f"{name!r} is neither a file or folder here, nor found on the Hub (if that could be reached)"
        raise OSError(f"{problem}: check the spelling. ({str(error).splitlines()[0]})") from error


def _ask_hub_once(name: str) -> None:
    """Raise if the Hub cannot be reached and the cache has no copy; ``datasets`` would ask six times, for 23 s."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    from huggingface_hub.utils import httpx

    if huggingface_hub.is_offline_mode():
        return
    try:
        huggingface_hub.dataset_info(name, timeout=10)
    except httpx.TransportError:
        if huggingface_hub.try_to_load_from_cache(name, "README.md", repo_type="dataset") is None:
            raise
    except (HfHubHTTPError, HFValidationError):
        pass  # datasets says what is wrong


def find_splits(
    source: str | Path | Dataset | DatasetDict | pd.DataFrame,
    config_name: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> Mapping[str, Dataset | Path]:
    """Find the splits of a source by name: rows in memory, or unread paths.

    A file, a data set and a DataFrame are the training set. A folder has files named after their split, or a folder of
    ``.txt`` files or documents for each class, or such a folder for each split.
    """
    path = local_path(source, csv_separator, encoding)
    if path is not None:
        return _splits_in(path) if path.is_dir() else {"train": path}
    if isinstance(source, dict):
        return {name: as_dataset(rows) for name, rows in source.items()}
    if isinstance(source, str | Path):
        return load_from_hub(str(source), config_name)
    return {"train": as_dataset(source)}


def _splits_in(folder: Path) -> dict[str, Path]:
    """Find the splits in a folder."""
    known = set(chain(*SPLIT_NAMES.values()))
    splits: dict[str, Path] = {}
    entries = sorted(folder.iterdir())
    text_folders = [entry for entry in entries if _holds_texts(entry)]
    split_folders = [entry for entry in text_folders if entry.name in known and any(map(_holds_texts, entry.iterdir()))]
    for entry in [entry for entry in entries if entry.is_file()] + split_folders:
        name = without_gz(entry).stem if entry.is_file() else entry.name
        if entry.is_file() and without_gz(entry).suffix.lower() not in FILE_FORMATS:
            if name in known:
                logger.warning(f"{entry} is not read. Known endings: {sorted(FILE_FORMATS)}, also with .gz.")
        elif name in splits:
            raise ValueError(f"{splits[name]} and {entry} are both {name!r}: keep one of them in the folder.")
        else:
            splits[name] = entry
    if "train" not in splits and not split_folders and text_folders:
        splits["train"] = folder
    return splits


def _holds_texts(folder: Path) -> bool:
    """Whether a path is a folder with ``.txt`` files or documents."""
    return folder.is_dir() and (holds_text_files(folder) or holds_documents(folder))


def as_dataset(source: Dataset | IterableDataset | pd.DataFrame | pd.Series) -> Dataset | IterableDataset:
    """Convert a DataFrame (without its index) or a Series (as column ``text``) to a data set; keep a data set."""
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
    """Number of dropped rows by reason, for the log; empty if none was dropped."""
    return ", ".join(f"{outcomes[reason]} {reason}" for reason in DROP_REASONS if outcomes[reason])


def outcome_of(texts: Iterable[Any]) -> str:
    """Outcome of a row with these texts; None is empty."""
    texts = list(texts)
    if not all(isinstance(text, str | None) for text in texts):
        return NOT_A_STRING
    return KEPT if all(text and text.strip() for text in texts) else EMPTY


def keep_usable(rows: Dataset, outcomes: list[str]) -> Dataset:
    """Select the rows with outcome ``KEPT``; if all are kept, the data set itself, without indices."""
    kept = np.flatnonzero(np.asarray(outcomes) == KEPT)
    return rows if len(kept) == len(outcomes) else rows.select(kept)


def refuse_other_types(feature: Any, column: str, option: str) -> None:
    """Refuse a column of another type than strings."""
    if getattr(feature, "dtype", None) not in ("string", "large_string", "null"):
        raise ValueError(f"Column {column!r} holds {feature}, not strings: choose {option}.")
