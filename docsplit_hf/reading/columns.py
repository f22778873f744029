"""Find the columns of texts and labels in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TEXT_NAMES = ("text", "document", "body", "content")
LABEL_NAMES = ("label", "class", "category", "topic")


def columns_of(rows: Iterable[Mapping[str, Any]], *needed: str | None) -> list[str]:
    """List the columns of the rows; raise if a needed one is missing."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in needed:
        if name not in (None, *columns):
            raise ValueError(f"The file has no column {name!r}, only {columns}: choose another one.")
    return columns


def guess_columns(rows: Sequence[Mapping[str, Any]], most_labels: int) -> tuple[str, str | None]:
    """Guess the columns of texts and labels from their names or their values; None: no column looks like labels.

    ``most_labels`` limits the number of different labels.
    """
    columns = columns_of(rows)
    if not columns:
        raise ValueError("The table has no rows: give one with texts.")
    values = {name: [str(row[name]).strip() for row in rows if row.get(name) not in (None, "")] for name in columns}
    by_lower_name = {name.lower(): name for name in reversed(columns)}
    longest = max(columns, key=lambda name: sum(map(len, values[name])))
    text = next((by_lower_name[name] for name in TEXT_NAMES if name in by_lower_name), longest)
    distinct = {name: len(set(values[name])) for name in columns if name != text}
    for name in LABEL_NAMES:
        if by_lower_name.get(name) in distinct:
            return text, by_lower_name[name]
    # Labels are repeated values. Columns of words are preferred to columns of numbers.
    repeated = [name for name, count in distinct.items() if 1 < count <= min(most_labels, len(values[name]) / 2)]
    preferred = sorted(repeated, key=lambda name: (all(map(str.isdecimal, values[name])), -distinct[name]))
    return text, preferred[0] if preferred else None
