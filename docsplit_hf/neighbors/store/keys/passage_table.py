"""The passages of a datastore's rows: keys below a row's own one, and where in its text each of them stands."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ....models.inference.long_documents import Passages
from .key_matrix import BLOCK_ROWS, GrowableArray, as_matrix, check_finite

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

    def freeze(self) -> None:
        """Make the arrays read-only."""
        for field in fields(self):
            getattr(self, field.name).flags.writeable = False


class PassageBuffers:
    """The arrays behind passage tables, which grow without being copied."""

    def __init__(self, table: PassageTable) -> None:
        self._arrays = {field.name: GrowableArray(getattr(table, field.name)) for field in fields(table)}

    def appended(self, table: PassageTable, more: PassageTable) -> PassageTable:
        """A table with the passages of more rows at the end; ``table`` is the last one that these buffers gave."""
        grown = {
            name: array.appended(len(getattr(table, name)), getattr(more, name)) for name, array in self._arrays.items()
        }
        check_finite(grown["keys"][len(table.keys) :], "embeddings of passages")
        return PassageTable(**grown)


def check_passages(passages: Passages, keys: np.ndarray) -> PassageTable | None:
    """The passages that were given with some keys, checked; None where each row has one, which then is its key."""
    embeddings = as_matrix(passages.embeddings, "embeddings of passages", keys.shape[1])
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
    if (fault := find_fault(table)) is not None:
        raise ValueError(fault)
    alone = np.flatnonzero(table.counts == 1)
    for start in range(0, len(alone), BLOCK_ROWS):
        rows = alone[start : start + BLOCK_ROWS]
        given, own = (array.astype(np.float32) for array in (embeddings[table.ends[rows] - 1], keys[rows]))
        far = np.linalg.norm(given - own, axis=1) > SAME_KEY * np.linalg.norm(own, axis=1)
        if far.any():
            row = rows[far.argmax()]
            raise ValueError(
                f"Row {row} has one passage, whose embedding is not its key: embed both alike, normalized or not."
            )
    return table if has_several(table) else None


def find_fault(table: PassageTable) -> str | None:
    """What is wrong with the counts and spans of a table, whose shapes are right; None if nothing is."""
    if (table.counts < 1).any():
        row = int((table.counts < 1).argmax())
        return f"Row {row} has {table.counts[row]} passages: a row has at least one, all that was read of its text."
    if (most := table.counts.max(initial=0)) > len(table.keys):  # and their sum may overflow
        return f"A row has {most} passages, but there are {len(table.keys)} embeddings in all."
    if table.counts.sum() != len(table.keys):
        return f"The counts of passages sum to {table.counts.sum()}, but there are {len(table.keys)} embeddings."
    wrong = (table.spans[:, 0] < 0) | (table.spans[:, 0] > table.spans[:, 1])
    if wrong.any():
        start, end = table.spans[wrong][0]
        return f"Passage {int(wrong.argmax())} stands at {start} to {end}: a span is 0 <= start <= end, in characters."
    return None


def check_spans(table: PassageTable, rows: pa.Table) -> None:
    """Refuse passages that end behind the text of their row, where it is kept."""
    lengths = text_lengths(rows, missing=-1)
    if not len(lengths):
        return
    last = np.maximum.reduceat(table.spans[:, 1], table.ends - table.counts)
    wrong = (lengths >= 0) & (last > lengths)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"A passage of row {row} ends at {last[row]}, but its text has {lengths[row]} characters: spans are in "
            "characters of the text, not in bytes or tokens."
        )


def text_lengths(rows: pa.Table, missing: int = 0) -> np.ndarray:
    """The characters of each row's text, int64 ``(N,)``; ``missing`` where it is not kept."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.utf8_length(rows["text"]), missing).to_numpy().astype(np.int64)


def has_several(table: PassageTable) -> bool:
    """Whether a row has several passages."""
    return len(table.keys) > len(table.counts)


def whole_rows(keys: np.ndarray, rows: pa.Table) -> PassageTable:
    """The passages of rows that were not cut: of each its key, which stands for the whole text."""
    spans = np.zeros((len(keys), 2), dtype=np.int64)
    spans[:, 1] = text_lengths(rows)
    return PassageTable(keys, spans, np.ones(len(keys), dtype=np.int64))


def keep_rows(table: PassageTable, kept: np.ndarray) -> PassageTable | None:
    """The passages of some rows, bool ``(N,)``, in arrays of their own; None where each of them has one."""
    passages = np.repeat(kept, table.counts)
    selected = PassageTable(table.keys[passages], table.spans[passages], table.counts[kept])
    selected.freeze()
    return selected if has_several(selected) else None


def take_passages(table: PassageTable | None, rows: np.ndarray) -> Passages | None:
    """The passages of some rows, in the dtype of the table; None where there is none."""
    if table is None:
        return None
    places = places_of(table.counts, table.ends, rows)
    return Passages(table.keys[places], table.counts[rows], table.spans[places])


def places_of(counts: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where the passages of some rows stand, one row's after the other's."""
    lengths = counts[rows]
    return np.repeat(ends[rows] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
