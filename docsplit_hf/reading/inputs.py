"""Texts, pairs and files that are given to a classifier: in any form, read as rows in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ..content_hash import cache_folder
from .files.failures import FailedFile
from .files.finding import FileInput, files_of, named_file
from .files.places import FileText
from .origins import FILE_COLUMN, PLACES_COLUMN, Origin, make_origin


class InputRow(NamedTuple):
    """A text or a pair that was read: its number among the inputs, from 0, and its file and places."""

    number: int
    text: str
    pair: str | None = None
    origin: Origin | None = None


def read_inputs(given: Any, show_progress: bool = False) -> Iterator[InputRow | FailedFile]:
    """Read inputs in their order; files are read in processes, some of them ahead.

    Args:
        given: Texts, pairs, paths, or rows that this function has yielded, in any form that ``as_list`` takes, or a
            stream of them. Of a stream no more is taken than is yielded, except where files follow one another.
        show_progress: Whether to show a progress bar of files.

    Yields:
        A row for each input, or the failure of its file.

    Raises:
        TypeError: If an input is none of these.
    """
    items = as_list(given)
    if isinstance(items, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    inputs = (named_file(item) if isinstance(item, Path) else item for item in items)
    has_file = isinstance(items, list) and any(isinstance(item, Path | FileInput) for item in items)
    total = len(items) if show_progress and has_file else None
    for number, (item, read) in enumerate(_read_files(inputs, total)):
        if isinstance(read, FailedFile):
            yield read._replace(file=item.name)
        elif read is not None:
            yield InputRow(number, read.text, origin=Origin(item.name, read.places))
        elif isinstance(item, FailedFile):
            yield item
        elif isinstance(item, InputRow):
            yield item._replace(number=number)
        else:
            yield _row_of(item, number)


def _read_files(items: Iterable[Any], progress_total: int | None) -> Iterator[tuple[Any, FileText | FailedFile | None]]:
    """Each item with the text or the failure of its file; None for items without one."""
    stream = iter(items)
    for number, item in enumerate(stream):
        if isinstance(item, FileInput):
            from .files.reader import read_among  # here, as texts are classified without the readers of files

            yield from read_among(
                chain([item], stream),
                lambda item: item.path if isinstance(item, FileInput) else None,
                cache_dir=cache_folder("files"),
                progress_total=None if progress_total is None else progress_total - number,
            )
        else:
            yield item, None


def labels_of_folders(files: Sequence[FileInput], folder: Path) -> list[str]:
    """Return the first sub-folder of each file as its label."""
    for file in files:
        if "/" not in file.name:
            raise ValueError(
                f"{file.path} is in no sub-folder of {folder}, so it has no label: move it into a folder named after "
                "its label, or give labels."
            )
    return [file.name.partition("/")[0] for file in files]


def as_list(given: Any) -> Any:
    """Convert a sequence, array, Series, DataFrame or data set into a list, in order.

    A path, of a file, a folder or a pattern, becomes files to read; anything else is returned as it is.
    """
    if isinstance(given, Path):
        return files_of(given)
    if isinstance(given, (str, dict, list)):
        return given
    columns = getattr(given, "columns", None) if hasattr(given, "notna") else getattr(given, "column_names", None)
    if columns is not None and hasattr(given, "__len__"):
        if "text" not in columns:
            raise TypeError(f"There is no column 'text' among {list(columns)}: rename one, or pass one column.")
        if FILE_COLUMN in columns and PLACES_COLUMN in columns:
            names = ("text", FILE_COLUMN, PLACES_COLUMN)
        elif "text_pair" in columns:
            names = ("text", "text_pair")
        else:
            return _values(given["text"])
        rows = zip(*(_values(given[name]) for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]
    if getattr(given, "ndim", 1) != 1:
        raise TypeError(f"Expected one text in each row, got an array of shape {tuple(given.shape)}: pass one column.")
    return _values(given) if isinstance(given, Sequence) or hasattr(given, "tolist") else given


def texts_and_pairs(given: Any, first: int = 0) -> tuple[list[str], list[str | None]]:
    """Convert to lists of texts and of second texts, or None; ``first`` is the number of the first text in errors."""
    given = as_list(given)
    if isinstance(given, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    rows = [_row_of(item, number) for number, item in enumerate(given, first)]
    return [row.text for row in rows], [row.pair for row in rows]


def joined_texts(texts: Sequence[str | None], pairs: Sequence[str | None]) -> list[str]:
    """Join the two texts of pairs by a space; a missing text becomes an empty string."""
    return [f"{text or ''} {pair}" if pair else text or "" for text, pair in zip(texts, pairs, strict=True)]


def check_lengths(texts: Sequence[str], labels: Sequence[Any] | None = None, ids: Sequence[str] | None = None) -> None:
    """Raise ValueError unless there are as many labels, and as many ids, as texts."""
    for name, given in (("label", labels), ("id", ids)):
        if given is not None and len(given) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(given)} {name}s: give one {name} for each text.")


def _row_of(item: Any, number: int) -> InputRow:
    """Check a text or a pair in memory, which may have been read from a file earlier."""
    fields = item if isinstance(item, dict) else {"text": item}
    if not {"text"} <= set(fields) <= {"text", "text_pair", FILE_COLUMN, PLACES_COLUMN}:
        raise TypeError(f"Text {number} is {item!r}: a pair is a dictionary with 'text' and 'text_pair'.")
    text = fields["text"]
    pair = fields.get("text_pair")
    if not isinstance(text, str):
        instead = f"docsplit_hf.read_file({str(text)!r}).text" if isinstance(text, Path) else "only rows that have one"
        raise TypeError(f"Text {number} is {text!r}, not a string: give {instead}.")
    if not isinstance(pair, str | None):
        raise TypeError(f"Text pair {number} is {pair!r}, not a string.")
    if FILE_COLUMN not in fields:
        return InputRow(number, text, pair)
    return InputRow(number, text, pair, make_origin(fields[FILE_COLUMN], fields.get(PLACES_COLUMN)))


def _values(column: Any) -> list[Any]:
    """Convert a column to a list, with None for missing values."""
    if hasattr(column, "notna"):  # in pandas, missing values may be NaN
        column = column.astype(object).where(column.notna(), None)
    return column.tolist() if hasattr(column, "tolist") else list(column)
