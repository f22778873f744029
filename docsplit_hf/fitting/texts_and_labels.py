"""Input validation and normalization of texts and labels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..arrays.row_table import is_multi_label
from ..reading.labels import label_name

logger = logging.getLogger(__name__)


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
