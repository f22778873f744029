"""Some rows of a snapshot: given ones, or a random sample that is always the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .keys.passage_table import PassageTable, take_passages
from .row_table import rows_at
from .snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence


def sample_rows(snapshot: Snapshot, passages: int, least: int) -> np.ndarray:
    """As many random rows as have so many passages, but at least ``least``, ascending; all if there are fewer."""
    count, searched = len(snapshot.keys), len(snapshot.searched)
    size = min(count, max(passages * count // max(searched, 1), least))
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))


def take_rows(snapshot: Snapshot, rows: np.ndarray) -> Snapshot:
    """A snapshot of some rows alone, without documents and index."""
    taken = take_passages(snapshot.passages, rows)
    passages = None if taken is None else PassageTable(taken.embeddings, taken.spans, taken.counts)
    alone = {"index": None, "index_rows": None, "indexed": 0, "documents": None, "fitted": None}
    keys, labels, table = snapshot.keys[rows], snapshot.labels[rows], rows_at(snapshot.rows, rows)
    return replace(snapshot, keys=keys, labels=labels, rows=table, passages=passages, **alone)


def with_ids(snapshot: Snapshot, ids: Sequence[str]) -> Snapshot:
    """A snapshot whose rows have other ids."""
    import pyarrow as pa

    return replace(snapshot, rows=snapshot.rows.set_column(0, "id", pa.chunked_array([pa.array(ids, pa.string())])))
