"""Which rows of a source can be used, and how many are dropped, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset

# Outcomes of a row: kept, or the reason to drop it.
KEPT = "kept"
NO_LABEL = "without a label"
NOT_A_STRING = "not a string"
EMPTY = "empty"
SINGLE_SENTENCE = "single sentence"
DROP_REASONS = (NO_LABEL, NOT_A_STRING, EMPTY, SINGLE_SENTENCE)  # in their order in the log


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


def check_columns(found: Iterable[str], columns: Mapping[str, str], place: Any) -> None:
    """Refuse a source without one of the columns, given by the options that name them."""
    for name, column in columns.items():
        if column not in found:
            raise ValueError(f"There is no column {column!r} in {place}, only {sorted(found)}: choose {name}_column.")


def refuse_other_types(feature: Any, column: str, option: str) -> None:
    """Refuse a column of another type than strings."""
    if getattr(feature, "dtype", None) not in ("string", "large_string", "null"):
        raise ValueError(f"Column {column!r} holds {feature}, not strings: choose {option}.")
