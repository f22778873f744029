"""Rows that cannot be used: they are dropped, and counted by reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset

KEPT, NO_LABEL, NOT_A_STRING, EMPTY = "kept", "without a label", "not a string", "empty"
SINGLE_SENTENCE = "single sentence"
REASONS = (NO_LABEL, NOT_A_STRING, EMPTY, SINGLE_SENTENCE)  # in the order in which they are told


def describe_dropped(outcomes: Counter[str]) -> str:
    """How many rows were dropped for which reason, for the log; empty if none were."""
    return ", ".join(f"{outcomes[reason]} {reason}" for reason in REASONS if outcomes[reason])


def keep_usable(rows: Dataset, outcomes: list[str]) -> Dataset:
    """The rows whose outcome is ``KEPT``; the data set itself if all are, so that no indices are needed."""
    kept = np.flatnonzero(np.asarray(outcomes) == KEPT)
    return rows if len(kept) == len(outcomes) else rows.select(kept)


def refuse_other_types(feature: Any, column: str, option: str) -> None:
    """Refuse a column that does not hold strings, by its feature."""
    if getattr(feature, "dtype", None) not in ("string", "large_string", "null"):
        raise ValueError(f"Column {column!r} holds {feature}, not strings: choose {option}.")
