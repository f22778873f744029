"""Ids and texts of rows as lists, for processes that only answer, where importing pyarrow takes too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class TextColumn(list[str | None]):
    """A column, as much of one of pyarrow as answers need."""

    def to_pylist(self) -> list[str | None]:
        """The texts."""
        return self


@dataclass(frozen=True, eq=False)
class TextTable:
    """Columns of the same rows, as much of a table of pyarrow as answers need."""

    columns: Mapping[str, TextColumn]

    def __len__(self) -> int:
        return len(self.columns["id"])

    def __getitem__(self, name: str) -> TextColumn:
        """A column."""
        return self.columns[name]
