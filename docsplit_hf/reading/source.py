"""What a source is, such as documents, a table, a name on the Hub or data in memory, and its rows as a data set."""

from __future__ import annotations

import glob
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .characters import check_encoding
from .files.finding import ALL_FILES, TEXT_FILES, files_in, log_left_out, refuse_mistyped_path
from .origins import FILE_COLUMN, PLACES_COLUMN
from .tables import (
    FILE_FORMATS,
    MOST_RANGES,
    file_state,
    load_table,
    naming,
    read_text_file,
    refuse_separator,
    without_gz,
)

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, DatasetDict, IterableDataset

logger = logging.getLogger(__name__)

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "valid", "dev"), "test": ("test",)}
Kind = Literal["documents", "text folder", "table", "hub", "memory"]
# Endings of files that hold a document, and no table of texts. Files of other kinds are recognized by their content.
DOCUMENT_ENDINGS = (
    ".pdf", ".docx", ".docm", ".doc", ".odt", ".rtf", ".pptx", ".ppt", ".xlsx", ".xls", ".html", ".htm", ".xhtml",
    ".eml", ".msg", ".epub", ".zip",
)  # fmt: skip
# A folder with .txt files and these is a folder of .txt files, such as one with a README.md.
MARKUP_ENDINGS = (".md", ".markdown", ".rst")
TABLE_ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz")
DOCUMENT_COLUMNS = ("text", FILE_COLUMN, PLACES_COLUMN)


def is_pattern(source: str | Path) -> bool:
    """Whether a source is a pattern such as ``inbox/**/*.pdf``, and no file or folder of that name."""
    return glob.has_magic(str(source)) and not Path(source).exists()


def kind_of(source: Any) -> Kind:
    """What a source is; nothing is opened.

    ``"documents"``: a pattern of files, a document (PDF, Word, ...), or a folder with documents at any depth. ``"text
    folder"``: another folder. ``"table"``: another file. ``"hub"``: another name. ``"memory"``: no name.
    """
    if not isinstance(source, str | Path):
        return "memory"
    path = Path(source)
    if is_pattern(path):
        return "documents"
    if path.is_file():
        return "documents" if path.suffix.lower() in (*DOCUMENT_ENDINGS, *MARKUP_ENDINGS) else "table"
    if not path.is_dir():
        return "hub"
    endings = set()
    for file in files_in(path, ALL_FILES, left_out=Counter()):
        endings.add(file.suffix.lower())
        if file.suffix.lower() in DOCUMENT_ENDINGS:
            return "documents"
    is_other = ".txt" not in endings and endings - {*TABLE_ENDINGS}
    return "documents" if is_other else "text folder"


def checked_kind(source: Any, csv_separator: str | None = None, encoding: str | None = None) -> Kind:
    """What a source is; a missing path is refused, and so are options of files for another source."""
    kind = kind_of(source)
    if kind == "hub":
        refuse_missing_file(str(source))
    for name, value in (("csv_separator", csv_separator), ("encoding", encoding)):
        if value is not None and kind in ("hub", "memory"):
            place = repr(source) if isinstance(source, str) else f"a {type(source).__name__}"
            raise ValueError(f"{name}={value!r} is for files, and {place} is not a file: leave it out.")
    return kind


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
        return datasets.load_dataset(name, *arguments, **options)
    except (ConnectionError, httpx.TransportError, datasets.exceptions.DatasetNotFoundError) as error:
        raise OSError(
            f"{name!r} is neither a file or folder here, nor found on the Hub (if that could be reached): check the "
            f"spelling. ({str(error).splitlines()[0]})"
        ) from error


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
    kind = checked_kind(source, csv_separator, encoding)
    if kind == "hub":
        return load_from_hub(str(source), config_name)
    if kind == "memory":
        splits = source if isinstance(source, dict) else {"train": source}
        return {name: as_dataset(rows) for name, rows in splits.items()}
    return _splits_in(Path(source)) if Path(source).is_dir() else {"train": Path(source)}


def _splits_in(folder: Path) -> dict[str, Path]:
    """Find the splits in a folder."""
    known = set(chain(*SPLIT_NAMES.values()))
    splits: dict[str, Path] = {}
    entries = sorted(folder.iterdir())
    text_folders = [entry for entry in entries if holds_texts(entry)]
    split_folders = [entry for entry in text_folders if entry.name in known and any(map(holds_texts, entry.iterdir()))]
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


def holds_texts(folder: Path) -> bool:
    """Whether a path is a folder with ``.txt`` files or documents."""
    if not folder.is_dir():
        return False
    return next(files_in(folder, TEXT_FILES, left_out=Counter()), None) is not None or kind_of(folder) == "documents"


def load_path(
    path: Path, streaming: bool = False, csv_separator: str | None = None, encoding: str | None = None
) -> Dataset | IterableDataset:
    """Load a table, or a folder with a row for each ``.txt`` file or document and its first sub-folder as ``label``.

    Documents also have the columns ``file`` and ``places``. A stream has the shards of ``load_table``, or files.
    """
    check_encoding(encoding)
    kind = kind_of(path)
    if kind == "text folder":
        return _load_text_folder(path, streaming, encoding)
    if kind != "documents":
        return load_table(path, streaming, csv_separator, encoding)
    refuse_separator("documents", csv_separator)
    from .files.load_files import load_files  # here, as texts are classified without the readers of files
    from .files.options import FileOptions

    rows = load_files(path, FileOptions(encoding=encoding))
    return rows.to_iterable_dataset(min(MOST_RANGES, len(rows))) if streaming else rows


def find_text_files(folder: Path) -> list[Path]:
    """Find the ``.txt`` files in a folder at any depth, sorted, by the rules of ``find_files``; there may be none."""
    left_out: Counter[str] = Counter()
    files = sorted(files_in(folder, TEXT_FILES, left_out))
    log_left_out(folder, left_out)
    return files


def _load_text_folder(folder: Path, streaming: bool, encoding: str | None) -> Dataset | IterableDataset:
    """Load the ``.txt`` files in a folder."""
    import datasets

    paths = find_text_files(folder)
    if not paths:
        raise FileNotFoundError(
            f"The folder {folder} holds no text or document. Give a file, or a data set on the Hub."
        )
    labels = [next(iter(path.relative_to(folder).parts[:-1]), None) for path in paths]
    files = [(str(path), label, file_state(path)) for path, label in zip(paths, labels, strict=True)]
    features = datasets.Features(text=datasets.Value("string"), label=datasets.Value("string"))
    kind = datasets.IterableDataset if streaming else datasets.Dataset
    with naming(folder):
        return kind.from_generator(_texts_of, features=features, gen_kwargs={"files": files, "encoding": encoding})


def _texts_of(files: list[tuple], encoding: str | None) -> Iterator[dict[str, str | None]]:
    """Read ``.txt`` files, given by path, label and the file's state for the cache."""
    for path, label, _ in files:
        yield {"text": read_text_file(Path(path), encoding), "label": label}


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
