"""Which column of a table holds the texts, and which the labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

TEXT_NAMES = ("text", "document", "body", "content")
LABEL_NAMES = ("label", "class", "category", "topic")


def columns_of(rows: Iterable[dict[str, Any]], *needed: str | None) -> list[str]:
    """The columns of the rows; raises if a needed one is missing."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in needed:
        if name not in (None, *columns):
            raise ValueError(f"The file has no column {name!r}, only {columns}: choose another one.")
    return columns


def guess_columns(
    rows: Sequence[dict[str, Any]], most_labels: int | None = None, text_column: str | None = None
) -> tuple[str, str | None]:
    """The columns of texts and of labels, by their names or by what they hold. The second is None if no column fits."""
    columns = columns_of(rows)
    if not columns:
        raise ValueError("The table has no rows, so that there is nothing to read: give one with texts.")
    held = {name: [str(row[name]).strip() for row in rows if row.get(name) not in (None, "")] for name in columns}
    lower = {name.lower(): name for name in reversed(columns)}
    by_length = sorted(columns, key=lambda name: -sum(map(len, held[name])))
    text = text_column or next((lower[name] for name in TEXT_NAMES if name in lower), by_length[0])
    # Labels come again and again, and are no numbers where there is a choice.
    kinds = {name: len(set(held[name])) for name in columns if name != text}
    limit = len(rows) if most_labels is None else most_labels
    few = [name for name, count in kinds.items() if 1 < count <= min(limit, len(held[name]) / 2)]
    by_count = sorted(few, key=lambda name: (all(map(str.isdecimal, held[name])), -kinds[name]))
    return text, next((lower[name] for name in LABEL_NAMES if lower.get(name) in kinds), next(iter(by_count), None))
