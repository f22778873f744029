"""Build, update and cache the index of a snapshot.

Indexes are cached on this machine, never in a datastore's folder: a folder may come from a stranger, and reading a
FAISS file trusts native code with its bytes. The cache may be deleted at any time.
"""

from __future__ import annotations

import logging
import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..arrays.index import EXACT, IndexOptions, build_index, fewest_rows, fill_index, set_nprobe
from ..arrays.mapped_keys import MappedKeys
from ..content_hash import cache_folder, sha256_of_file, sha256_of_parts
from .inside_folder import temporary_file

if TYPE_CHECKING:
    import faiss

    from ..arrays.snapshot import Snapshot

logger = logging.getLogger(__name__)

# An index is rebuilt when both limits on added and removed keys are exceeded, since they slow down each search.
MAX_CHANGES = 1_000
MAX_CHANGED_FRACTION = 0.1  # of the keys in the index


def update_index(snapshot: Snapshot, rebuild: bool = False, sha256: str | None = None) -> Snapshot:
    """Add the index that the options name, also for the documents, if there are enough rows.

    ``rebuild``: even if few rows changed. ``sha256``: checksum of the keys, if they are in a file.
    """
    if snapshot.documents is not None:
        snapshot = replace(snapshot, documents=update_index(snapshot.documents, rebuild))
    factory = snapshot.options.factory
    keys = snapshot.searched
    without_index = replace(snapshot, index=None, index_rows=None, indexed=0)
    if factory == EXACT:
        return without_index
    if snapshot.index is not None and not rebuild:
        if snapshot.outside_index <= max(MAX_CHANGES, MAX_CHANGED_FRACTION * len(snapshot.index_rows)):
            return snapshot
        if isinstance(keys, MappedKeys):  # rebuilding may take an hour, too long for an add
            logger.warning("%d rows changed since the index was built: call reindex.", snapshot.outside_index)
            return snapshot
    min_rows = fewest_rows(factory, keys.shape[1])
    if len(keys) < min_rows:
        if rebuild or snapshot.index is not None:  # avoids a warning each time a row is added
            logger.warning(
                "%d rows are too few for %r: search is exact until there are %d.", len(keys), factory, min_rows
            )
        return without_index
    sha256 = sha256 or getattr(keys, "sha256", None)
    index = build_index(keys, factory) if sha256 is None else _cached_index(keys, sha256, factory)
    set_nprobe(index, snapshot.options.nprobe)
    index_rows = np.repeat(np.arange(len(snapshot.keys)), snapshot.counts)
    return replace(snapshot, index=index, index_rows=index_rows, indexed=len(snapshot.keys))


def change_index(snapshot: Snapshot, options: IndexOptions) -> Snapshot:
    """Replace the index. An equal index is rebuilt only if rows were added or removed since."""
    documents = snapshot.documents
    if documents is not None:
        documents = change_index(documents, options)
    is_equal = options.factory == snapshot.options.factory and snapshot.index is not None
    snapshot = replace(snapshot, options=options, documents=None)
    max_changes = 0
    if is_equal and isinstance(snapshot.keys, MappedKeys):
        # Training takes long on mapped keys: the index only gets the new rows, unless most of its rows changed.
        max_changes = len(snapshot.index_rows) // 2
    if is_equal and snapshot.outside_index <= max_changes:
        return replace(_merge_tail(snapshot), documents=documents)
    return replace(update_index(snapshot, rebuild=True), documents=documents)


def _merge_tail(snapshot: Snapshot) -> Snapshot:
    """Add the rows outside the index to a copy of it, without training."""
    import faiss

    counts = snapshot.counts[snapshot.indexed :]
    index = snapshot.index
    if len(counts):
        index = faiss.clone_index(index)
        fill_index(index, snapshot.searched, len(snapshot.searched) - int(counts.sum()))
    set_nprobe(index, snapshot.options.nprobe)
    tail = np.repeat(np.arange(snapshot.indexed, len(snapshot.keys)), counts)
    index_rows = np.concatenate([snapshot.index_rows, tail])
    return replace(snapshot, index=index, index_rows=index_rows, indexed=len(snapshot.keys))


def _cached_index(keys: np.ndarray | MappedKeys, sha256: str, factory: str) -> faiss.Index:
    """Load or build the index of keys in a file."""
    index = load_index(sha256, factory, *keys.shape)
    if index is None:
        index = build_index(keys, factory)
        store_index(index, sha256, factory)
    return index


def store_index(index: faiss.Index, keys_sha256: str, factory: str) -> None:
    """Cache an index of all rows, unless it is cached; if that fails, as in a read-only home, log a warning."""
    import faiss

    name = _cache_name(keys_sha256, factory)
    folder = cache_folder("indexes")
    if any(folder.glob(f"{name}-*.faiss")):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary_file(folder / f"{uuid.uuid4().hex}.tmp") as temporary:
            faiss.write_index(index, str(temporary))
            # The checksum is part of the name, so that a file is there with its checksum or not at all.
            os.replace(temporary, folder / f"{name}-{sha256_of_file(temporary)}.faiss")
    except (OSError, RuntimeError) as error:  # RuntimeError comes from FAISS
        logger.warning("The index could not be cached in %s, so it will be built again next time: %s", folder, error)


def load_index(keys_sha256: str, factory: str, rows: int, dimension: int) -> faiss.Index | None:
    """Load an index cached by this version of FAISS; None without one. A damaged file is deleted, with a warning."""
    import faiss

    name = _cache_name(keys_sha256, factory)
    for path in sorted(cache_folder("indexes").glob(f"{name}-*.faiss")):
        if path.name == f"{name}-{sha256_of_file(path)}.faiss":
            index = faiss.read_index(str(path))
            if (index.d, index.ntotal) == (dimension, rows):
                return index
        logger.warning("The index %s is damaged, so it is deleted and built again.", path)
        path.unlink(missing_ok=True)
    return None


def _cache_name(keys_sha256: str, factory: str) -> str:
    import faiss

    return sha256_of_parts([f"{keys_sha256}\n{factory}\n{faiss.__version__}".encode()])
