"""The passages of rows: keys below a row's own key, and where in its text each of them stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...models.inference.long_documents import Passages
from .keys import BLOCK_ROWS, as_matrix, check_finite, freeze

if TYPE_CHECKING:
    import pyarrow as pa

SAME_KEY = 1e-2  # of the key's norm: what rounding, as to float16, may move the passage of a row that has only one


@dataclass(frozen=True, eq=False)
class PassageTable:
    """The passages of rows, one row's after the other's, of which at least one row has several.

    ``keys``: float32 or float16 ``(P, D)``. ``spans``: int64 ``(P, 2)``, start and end in the text, in characters.
    ``counts``: int64 ``(N,)``, passages per row, at least 1.
    """

    keys: np.ndarray
    spans: np.ndarray
    counts: np.ndarray

    @cached_property
    def ends(self) -> np.ndarray:
        """Behind the last passage of each row, int64 ``(N,)``."""
        return np.cumsum(self.counts)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The three arrays by name."""
        return {"keys": self.keys, "spans": self.spans, "counts": self.counts}

    @property
    def has_several(self) -> bool:
        """Whether a row has several passages."""
        return len(self.keys) > len(self.counts)

    def take(self, rows: np.ndarray) -> PassageTable:
        """The passages of some rows, int64 ``(M,)``, in arrays of their own."""
        places = places_of(self.counts, self.ends, rows)
        return PassageTable(self.keys[places], self.spans[places], self.counts[rows])

    def keep(self, kept: np.ndarray) -> PassageTable | None:
        """The passages of some rows, bool ``(N,)``; None where each of them has one."""
        selected = self.take(np.flatnonzero(kept))
        freeze(*selected.arrays.values())
        return selected if selected.has_several else None


def check_passages(passages: Passages | None, keys: np.ndarray, rows: pa.Table | None = None) -> PassageTable | None:
    """The passages of some keys, checked; None where each has one, which then is its key. ``rows``: with the texts."""
    if passages is None:
        return None
    embeddings = as_matrix(passages.embeddings, "embeddings of passages", keys.shape[1])
    check_finite(embeddings, "embeddings of passages")
    counts, spans = np.asarray(passages.counts), np.asarray(passages.spans)
    if counts.dtype.kind not in "iu" or counts.shape != (len(keys),):
        raise ValueError(
            f"counts of passages must be integers of shape ({len(keys)},), one for each key, got {counts.dtype} of "
            f"shape {counts.shape}."
        )
    if spans.dtype.kind not in "iu" or spans.shape != (len(embeddings), 2):
        raise ValueError(
            f"spans of passages must be integers of shape ({len(embeddings)}, 2), start and end of each in its text, "
            f"got {spans.dtype} of shape {spans.shape}."
        )
    table = PassageTable(embeddings, spans.astype(np.int64), counts.astype(np.int64))
    check_table(table, rows)
    alone = np.flatnonzero(table.counts == 1)
    for start in range(0, len(alone), BLOCK_ROWS):
        part = alone[start : start + BLOCK_ROWS]
        given, own = (array.astype(np.float32) for array in (embeddings[table.ends[part] - 1], keys[part]))
        far = np.linalg.norm(given - own, axis=1) > SAME_KEY * np.linalg.norm(own, axis=1)
        if far.any():
            row = part[far.argmax()]
            raise ValueError(
                f"Row {row} has one passage, whose embedding is not its key: embed both alike, normalized or not."
            )
    return table if table.has_several else None


def check_table(table: PassageTable, rows: pa.Table | None = None) -> None:
    """Refuse counts and spans, of the right shapes, that do not fit each other or the texts of the rows."""
    if (table.counts < 1).any():
        row = int((table.counts < 1).argmax())
        raise ValueError(
            f"Row {row} has {table.counts[row]} passages: a row has at least one, all that was read of its text."
        )
    if (most := table.counts.max(initial=0)) > len(table.keys):  # and their sum may overflow
        raise ValueError(f"A row has {most} passages, but there are {len(table.keys)} embeddings in all.")
    if table.counts.sum() != len(table.keys):
        raise ValueError(
            f"The counts of passages sum to {table.counts.sum()}, but there are {len(table.keys)} embeddings."
        )
    wrong = (table.spans[:, 0] < 0) | (table.spans[:, 0] > table.spans[:, 1])
    if wrong.any():
        start, end = table.spans[wrong][0]
        raise ValueError(
            f"Passage {int(wrong.argmax())} stands at {start} to {end}: a span is 0 <= start <= end, in characters."
        )
    if rows is None or not len(rows):
        return
    lengths = _text_lengths(rows, missing=-1)
    last = np.maximum.reduceat(table.spans[:, 1], table.ends - table.counts)
    wrong = (lengths >= 0) & (last > lengths)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"A passage of row {row} ends at {last[row]}, but its text has {lengths[row]} characters: spans are in "
            "characters of the text, not in bytes or tokens."
        )


def whole_rows(keys: np.ndarray, rows: pa.Table) -> PassageTable:
    """The passages of rows that were not cut: of each its key, which stands for the whole text."""
    spans = np.zeros((len(keys), 2), dtype=np.int64)
    spans[:, 1] = _text_lengths(rows, missing=0)
    return PassageTable(keys, spans, np.ones(len(keys), dtype=np.int64))


def take_passages(table: PassageTable | None, rows: np.ndarray) -> Passages | None:
    """The passages of some rows, as a search takes them of queries; None where there is no table."""
    if table is None:
        return None
    taken = table.take(rows)
    return Passages(taken.keys, taken.counts, taken.spans)


def places_of(counts: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where the passages of some rows stand, one row's after the other's."""
    lengths = counts[rows]
    return np.repeat(ends[rows] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())


def _text_lengths(rows: pa.Table, missing: int) -> np.ndarray:
    """The characters of each row's text, int64 ``(N,)``; ``missing`` where it is not kept."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.utf8_length(rows["text"]), missing).to_numpy().astype(np.int64)
