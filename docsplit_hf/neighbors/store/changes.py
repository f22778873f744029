"""New snapshots of a datastore from old ones: with more rows, with fewer, with an index."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .index import EXACT, IndexOptions, build_index, fewest_rows, set_nprobe
from .key_matrix import GrowableArray, as_matrix, check_finite, check_probe
from .row_table import append_rows, ids_among, make_rows, rename_labels, renew_automatic_ids
from .snapshot import Snapshot

if TYPE_CHECKING:
    import faiss
    import pyarrow as pa

logger = logging.getLogger(__name__)

# An index is built again when more rows than these were added and removed since: they cost time in every search.
MOST_CHANGES, MOST_CHANGES_OF_INDEX = 1_000, 0.1


class Buffers:
    """The arrays behind the snapshots of a datastore, which grow without being copied. One writer at a time.

    Args:
        snapshot: The latest one.

    Example:

        >>> empty = empty_snapshot(8, ["fruit"], False, "float16", IndexOptions())
        >>> Buffers(empty).keys.appended(0, np.ones((2, 8))).dtype
        dtype('float16')
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.keys = GrowableArray(snapshot.keys)
        self.labels = GrowableArray(snapshot.labels)


def empty_snapshot(
    dimension: int,
    label_names: Sequence[str],
    multi_label: bool,
    dtype: str,
    options: IndexOptions,
    probe: Any = None,
) -> Snapshot:
    """The first snapshot of a datastore, without rows.

    Args:
        dimension: D of the keys.
        label_names: Different strings.
        multi_label: Whether rows may have several labels.
        dtype: ``"float32"`` or ``"float16"``.
        options: What it is to be searched with.
        probe: The fingerprint of the encoder, ``(P, D)``, or None.

    Returns:
        The snapshot.

    Raises:
        ValueError: If one of these is not what it should be, or FAISS makes no such index for this dimension.

    Example:

        >>> empty_snapshot(8, ["fruit"], True, "float16", IndexOptions()).labels.shape
        (0, 1)
    """
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")
    names = tuple(label_names)
    if isinstance(label_names, str) or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"label_names must be different strings, got {label_names!r}.")
    if options.factory != EXACT:
        fewest_rows(options.factory, dimension)  # FAISS's own refusal comes now, not when there are enough rows
    if probe is not None:
        probe = as_matrix(probe, "probe", dimension)
        check_finite(probe, "probe")
        probe = probe.astype(np.float32)
    labels = np.zeros((0, len(names)), dtype=bool) if multi_label else np.zeros(0, dtype=np.int64)
    return Snapshot(np.zeros((0, dimension), dtype=dtype), labels, make_rows(0, []), names, 0, options, probe)


def with_rows(
    snapshot: Snapshot,
    buffers: Buffers,
    keys: np.ndarray,
    labels: np.ndarray,
    label_names: tuple[str, ...],
    rows: pa.Table,
) -> Snapshot:
    """A snapshot with rows at the end.

    Args:
        snapshot: The latest one.
        buffers: What it lies in.
        keys: ``(M, D)``.
        labels: int64 ``(M,)`` or bool ``(M, C)``, as the snapshot's.
        label_names: The names of all labels: those of the snapshot, and new ones after them.
        rows: Ids and texts.

    Returns:
        The snapshot; its index, if it has one, does not know the new rows.

    Raises:
        ValueError: If a key is not finite, or an id is there already.

    Example:

        >>> from docsplit_hf.neighbors.store.row_table import make_rows
        >>> keys = np.zeros((1, 4), dtype=np.float32)
        >>> one = Snapshot(keys, np.array([0]), make_rows(1, ["a"]), ("fruit",), 0, IndexOptions())
        >>> two = with_rows(one, Buffers(one), keys + 1, np.array([0]), ("fruit",), make_rows(1, ["b"]))
        >>> len(one.keys), len(two.keys)
        (1, 2)
    """
    length = len(snapshot.keys)
    table = append_rows(snapshot.rows, rows)
    grown = buffers.keys.appended(length, keys)
    check_finite(grown[length:], "keys")
    return replace(
        snapshot,
        keys=grown,
        labels=buffers.labels.appended(length, labels),
        label_names=label_names,
        rows=table,
    )


def with_rows_of(snapshot: Snapshot, buffers: Buffers, other: Snapshot) -> Snapshot:
    """A snapshot with the rows of another datastore at the end. Ids that the other's counter gave are renewed.

    Args:
        snapshot: The latest one.
        buffers: What it lies in.
        other: A snapshot of the other datastore.

    Returns:
        The snapshot. One without rows or probe takes the other's probe.

    Raises:
        ValueError: If dimensions or encoders differ, only one has several labels a row, or an id is in both.

    Example:

        >>> first, second = (empty_snapshot(4, list(names), False, "float32", IndexOptions()) for names in ("ab", "bc"))
        >>> with_rows_of(first, Buffers(first), second).label_names
        ('a', 'b', 'c')
    """
    if other.multi_label != snapshot.multi_label:
        raise ValueError("One of the two has several labels a row, the other one: build both with multi_label.")
    keys = as_matrix(other.keys, "keys of the other datastore", snapshot.keys.shape[1])
    if snapshot.probe is None and len(snapshot.keys) == 0:
        snapshot = replace(snapshot, probe=other.probe)
    elif snapshot.probe is None or other.probe is None:
        logger.warning("One of the datastores has no probe, so whether the encoders are the same cannot be checked.")
    else:
        check_probe(other.probe, snapshot.probe)
    labels, names = rename_labels(other.labels, other.label_names, snapshot.label_names)
    rows, next_id = renew_automatic_ids(other.rows, other.next_id, snapshot.rows, snapshot.next_id)
    return with_rows(replace(snapshot, next_id=next_id), buffers, keys, labels, names, rows)


def without_rows(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """A snapshot without some rows. The others move up, and keep their order.

    Args:
        snapshot: The latest one.
        ids: Of the rows.

    Returns:
        The snapshot, in arrays of its own.

    Raises:
        ValueError: If there is no row of an id.

    Example:

        >>> from docsplit_hf.neighbors.store.row_table import make_rows
        >>> keys, rows = np.zeros((2, 4), dtype=np.float32), make_rows(2, ["a", "b"])
        >>> both = Snapshot(keys, np.array([0, 0]), rows, ("fruit",), 0, IndexOptions())
        >>> without_rows(both, ["a"]).rows["id"].to_pylist()
        ['b']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = list(ids)
    found = ids_among(ids, snapshot.rows)
    for row_id in ids:
        if row_id not in found:
            raise ValueError(f"There is no row with the id {row_id!r}: ids are strings, as add and search give them.")
    removed = pc.is_in(snapshot.rows["id"], value_set=pa.array(ids, pa.string()))
    kept = ~removed.to_numpy()
    changed = replace(
        snapshot, keys=snapshot.keys[kept], labels=snapshot.labels[kept], rows=snapshot.rows.filter(pc.invert(removed))
    )
    for array in (changed.keys, changed.labels):
        array.flags.writeable = False
    if snapshot.index is None:
        return changed
    rows_now = np.where(kept, np.cumsum(kept) - 1, -1)
    index_rows = np.where(snapshot.index_rows < 0, -1, rows_now[snapshot.index_rows])
    return replace(changed, index_rows=index_rows, indexed=int((index_rows >= 0).sum()))


def with_index(snapshot: Snapshot, rebuild: bool = False) -> Snapshot:
    """A snapshot with the index that its options ask for, if there are enough rows for it.

    Args:
        snapshot: The latest one.
        rebuild: Whether to build it even if few rows were added or removed since.

    Returns:
        The snapshot.

    Raises:
        ValueError: If FAISS cannot build it.

    Example:

        >>> from docsplit_hf.neighbors.store.row_table import make_rows
        >>> keys = np.random.default_rng(0).standard_normal((1000, 4), dtype=np.float32)
        >>> rows = make_rows(1000, map(str, range(1000)))
        >>> snapshot = Snapshot(keys, np.zeros(1000, np.int64), rows, ("fruit",), 0, IndexOptions("HNSW16"))
        >>> with_index(snapshot).indexed
        1000
    """
    factory, rows = snapshot.options.factory, len(snapshot.keys)
    if factory == EXACT:
        return replace(snapshot, index=None, index_rows=None, indexed=0)
    if snapshot.index is not None and not rebuild:
        if snapshot.outside_index <= max(MOST_CHANGES, MOST_CHANGES_OF_INDEX * len(snapshot.index_rows)):
            return snapshot
    fewest = fewest_rows(factory, snapshot.keys.shape[1])
    if rows < fewest:
        if rebuild or snapshot.index is not None:  # not at each row that is added
            logger.warning("%d rows are too few for %r: search is exact until there are %d.", rows, factory, fewest)
        return replace(snapshot, index=None, index_rows=None, indexed=0)
    start = time.perf_counter()
    index = build_index(snapshot.keys, factory)
    logger.info("Built the index %r of %d rows in %.1f s.", factory, rows, time.perf_counter() - start)
    return holding_index(snapshot, index)


def holding_index(snapshot: Snapshot, index: faiss.Index) -> Snapshot:
    """A snapshot with an index that was built from all its rows.

    Args:
        snapshot: The snapshot.
        index: The index.

    Returns:
        The snapshot.
    """
    set_nprobe(index, snapshot.options.nprobe)
    rows = len(snapshot.keys)
    return replace(snapshot, index=index, index_rows=np.arange(rows), indexed=rows)
