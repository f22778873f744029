"""Ids and texts of rows in arrays of NumPy, for processes that only answer, where importing pyarrow takes too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

CONTENT = "content"
ENDS = "ends"
NULLS = "is_null"


@dataclass(frozen=True, eq=False)
class TextColumn:
    """N texts, or None, as UTF-8, each after the last one."""

    content: np.ndarray  # uint8
    ends: np.ndarray  # int64 (N,): where each text ends
    is_null: np.ndarray  # bool (N,): whether it is None

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> TextColumn:
        """Encode texts."""
        given = list(texts)
        encoded = [(text or "").encode() for text in given]
        return cls(
            content=np.frombuffer(b"".join(encoded), np.uint8),
            ends=np.array(list(accumulate(map(len, encoded))), np.int64),
            is_null=np.array([text is None for text in given], bool),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], name: str) -> TextColumn:
        """Make a column of what ``to_arrays`` made.

        Raises:
            ValueError: If an array is missing, or does not fit the others.
        """
        try:
            column = cls(*(arrays[f"{name}.{part}"] for part in (CONTENT, ENDS, NULLS)))
        except KeyError as error:
            raise ValueError(f"it has no array {error}") from error
        last = int(column.ends[-1]) if len(column.ends) else 0
        is_ascending = (np.diff(column.ends, prepend=0) >= 0).all()
        if not is_ascending or last != len(column.content) or len(column.is_null) != len(column.ends):
            raise ValueError(f"the arrays of {name} do not fit together")
        return column

    def to_arrays(self, name: str) -> dict[str, np.ndarray]:
        """Arrays that a file of safetensors holds."""
        return {f"{name}.{CONTENT}": self.content, f"{name}.{ENDS}": self.ends, f"{name}.{NULLS}": self.is_null}

    def __len__(self) -> int:
        return len(self.ends)

    def values(self, rows: np.ndarray) -> list[str | None]:
        """The texts of some rows."""
        found: list[str | None] = []
        for row in rows.tolist():
            start = int(self.ends[row - 1]) if row else 0
            text = self.content[start : self.ends[row]].tobytes().decode()
            found.append(None if self.is_null[row] else text)
        return found

    def to_pylist(self) -> list[str | None]:
        """All texts."""
        return self.values(np.arange(len(self)))


@dataclass(frozen=True, eq=False)
class TextTable:
    """Columns of the same rows, as much of a table of pyarrow as answers need."""

    columns: Mapping[str, TextColumn]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> TextColumn:
        """A column."""
        return self.columns[name]
