"""The index of a snapshot: built when it is due, merged with what was added, replaced by another."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .keys.mapped_keys import MappedKeys
from .search.index import EXACT, IndexOptions, build_index, fewest_rows, fill_index, set_nprobe
from .search.index_cache import cached_index

if TYPE_CHECKING:
    import faiss

    from .snapshot import Snapshot

logger = logging.getLogger(__name__)

# An index is built again when more rows than these were added and removed since: they cost time in every search.
MOST_CHANGES, MOST_CHANGES_OF_INDEX = 1_000, 0.1


def update_index(snapshot: Snapshot, rebuild: bool = False) -> Snapshot:
    """A snapshot with the index of its options, if there are enough rows; ``rebuild``: even if few rows changed."""
    factory, rows = snapshot.options.factory, len(snapshot.searched)
    without_index = replace(snapshot, index=None, index_rows=None, indexed=0)
    if factory == EXACT:
        return without_index
    if snapshot.index is not None and not rebuild:
        if snapshot.outside_index <= max(MOST_CHANGES, MOST_CHANGES_OF_INDEX * len(snapshot.index_rows)):
            return snapshot
        if isinstance(snapshot.searched, MappedKeys):  # which may take an hour: not in the middle of an add
            logger.warning("%d rows were added or removed since the index was built: reindex.", snapshot.outside_index)
            return snapshot
    fewest = fewest_rows(factory, snapshot.keys.shape[1])
    if rows < fewest:
        if rebuild or snapshot.index is not None:  # not at each row that is added
            logger.warning("%d rows are too few for %r: search is exact until there are %d.", rows, factory, fewest)
        return without_index
    if getattr(snapshot.searched, "sha256", None):
        index = cached_index(snapshot.searched, factory)
    else:
        index = build_index(snapshot.searched, factory)
    return use_index(snapshot, index)


def change_index(snapshot: Snapshot, options: IndexOptions) -> Snapshot:
    """A snapshot with another index. The same is built anew only if rows were added or removed since."""
    same = options.factory == snapshot.options.factory and snapshot.index is not None
    snapshot = replace(snapshot, options=options)
    if same and (snapshot.outside_index == 0 or _is_worth_merging(snapshot)):
        return _merge_tail(snapshot)
    return update_index(snapshot, rebuild=True)


def _is_worth_merging(snapshot: Snapshot) -> bool:
    """Whether the index of mapped keys is still of much the same rows."""
    return isinstance(snapshot.searched, MappedKeys) and 2 * snapshot.outside_index <= len(snapshot.index_rows)


def _merge_tail(snapshot: Snapshot) -> Snapshot:
    """A snapshot whose index, a copy, has all rows; it is not trained again."""
    import faiss

    counts = snapshot.counts[snapshot.indexed :]
    index = snapshot.index
    if len(counts):
        index = faiss.clone_index(index)
        fill_index(index, snapshot.searched, len(snapshot.searched) - int(counts.sum()))
    set_nprobe(index, snapshot.options.nprobe)
    rows = len(snapshot.keys)
    index_rows = np.concatenate([snapshot.index_rows, np.repeat(np.arange(snapshot.indexed, rows), counts)])
    return replace(snapshot, index=index, index_rows=index_rows, indexed=rows)


def use_index(snapshot: Snapshot, index: faiss.Index) -> Snapshot:
    """A snapshot with an index that was built from all its rows."""
    set_nprobe(index, snapshot.options.nprobe)
    rows = len(snapshot.keys)
    return replace(snapshot, index=index, index_rows=np.repeat(np.arange(rows), snapshot.counts), indexed=rows)
