"""Input validation and normalization of texts and labels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..arrays.row_table import is_multi_label
from ..reading.labels import label_name
from ..reading.origins import FILE_COLUMN, PLACES_COLUMN

logger = logging.getLogger(__name__)


def as_list(given: Any) -> Any:
    """Convert a sequence, array, Series, DataFrame or data set into a list, in order; return anything else as it is."""
    if isinstance(given, (str, dict, list)):
        return given
    columns = getattr(given, "columns", None) if hasattr(given, "notna") else getattr(given, "column_names", None)
    if columns is not None and hasattr(given, "__len__"):
        if "text" not in columns:
            raise TypeError(f"There is no column 'text' among {list(columns)}: rename one, or pass one column.")
        if FILE_COLUMN in columns and PLACES_COLUMN in columns:
            return _texts_of_files(given)
        if "text_pair" not in columns:
            return _values(given["text"])
        pairs = zip(_values(given["text"]), _values(given["text_pair"]), strict=True)
        return [{"text": text, "text_pair": pair} for text, pair in pairs]
    if getattr(given, "ndim", 1) != 1:
        raise TypeError(f"Expected one text in each row, got an array of shape {tuple(given.shape)}: pass one column.")
    return _values(given) if isinstance(given, Sequence) or hasattr(given, "tolist") else given


def _texts_of_files(table: Any) -> list[dict[str, Any]]:
    """Convert a table made by ``load_files`` into a list of texts with their file and places."""
    rows = zip(_values(table["text"]), _values(table[FILE_COLUMN]), _values(table[PLACES_COLUMN]), strict=True)
    return [{"text": text, FILE_COLUMN: file, PLACES_COLUMN: places} for text, file, places in rows]


def texts_and_pairs(given: Any, first: int = 0) -> tuple[list[str], list[str | None]]:
    """Convert to lists of texts and of second texts, or None; ``first`` is the number of the first text in errors."""
    given = as_list(given)
    if isinstance(given, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    texts = []
    pairs = []
    for i, item in enumerate(given, first):
        if isinstance(item, dict) and not {"text"} <= set(item) <= {"text", "text_pair", FILE_COLUMN, PLACES_COLUMN}:
            raise TypeError(f"Text {i} is {item!r}: a pair is a dictionary with 'text' and 'text_pair'.")
        text, pair = (item["text"], item.get("text_pair")) if isinstance(item, dict) else (item, None)
        if not isinstance(text, str):
            instead = (
                f"docsplit_hf.read_file({str(text)!r}).text" if isinstance(text, Path) else "only rows that have one"
            )
            raise TypeError(f"Text {i} is {text!r}, not a string: give {instead}.")
        if not isinstance(pair, (str, type(None))):
            raise TypeError(f"Text pair {i} is {pair!r}, not a string.")
        texts.append(text)
        pairs.append(pair)
    return texts, pairs


def joined_texts(texts: Sequence[str | None], pairs: Sequence[str | None]) -> list[str]:
    """Join the two texts of pairs by a space; a missing text becomes an empty string."""
    return [f"{text or ''} {pair}" if pair else text or "" for text, pair in zip(texts, pairs, strict=True)]


def names_of_labels(labels: Sequence[Any]) -> list[Any]:
    """Convert labels, or lists of labels, to names; numbers and bools become text, which is logged once."""
    names = []
    other: Any = None  # the first label that is not a string
    for row, given in enumerate(labels):
        multi_label = is_multi_label([given])
        found = []
        for label in given if multi_label else [given]:
            found.append(_name_of_label(label, row))
            other = label if other is None and not isinstance(label, str) else other
        names.append(found if multi_label else found[0])
    if other is not None:
        logger.warning(
            "Labels other than strings are converted to text, %r to %r. For a ClassLabel column, give the names: %s.",
            other,
            label_name(other),
            "[dataset.features['label'].int2str(label) for label in dataset['label']]",
        )
    return names


def _name_of_label(label: Any, row: int) -> str:
    """Convert a label, a string or a number, to a name; ``row`` is the number of its text in errors."""
    if isinstance(label, str):
        if label.strip():
            return label
        raise ValueError(
            f"The label of text {row} is {label!r}, not a name: leave it out, or give it to add_documents, which takes "
            "texts without labels."
        )
    if str(label) in ("None", "nan", "<NA>", "NaT"):
        instead = "leave it out, or give it to add_documents, which takes texts without labels"
        raise TypeError(f"The label of text {row} is {label!r}, not a name: {instead}.")
    try:
        return label_name(label)
    except ValueError as error:
        raise TypeError(f"The label of text {row} is {label!r}, not a name: give names, or whole numbers.") from error


def check_lengths(texts: Sequence[str], labels: Sequence[Any] | None = None, ids: Sequence[str] | None = None) -> None:
    """Raise ValueError unless there are as many labels, and as many ids, as texts."""
    for name, given in (("label", labels), ("id", ids)):
        if given is not None and len(given) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(given)} {name}s: give one {name} for each text.")


def _values(column: Any) -> list[Any]:
    """Convert a column to a list, with None for missing values."""
    if hasattr(column, "notna"):  # in pandas, missing values may be NaN
        column = column.astype(object).where(column.notna(), None)
    return column.tolist() if hasattr(column, "tolist") else list(column)
