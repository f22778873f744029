"""Snapshot: the rows of a datastore at one moment, how they are searched, and new snapshots with more rows or fewer."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .keys.key_matrix import GrowableArray, as_matrix, check_finite, check_probe, freeze
from .keys.mapped_keys import MappedKeys, growable, keep
from .keys.passage_table import PassageBuffers, PassageTable, check_passages, check_spans, keep_rows, whole_rows
from .neighbors import Neighbors
from .row_table import append_rows, automatic_ids, ids_among, make_rows, without
from .search.grouped_search import GroupedNeighbors, grouped_among, grouped_search, join_queries, nearest_of
from .search.index import (
    EXACT,
    IndexOptions,
    approximate_search,
    exact_search,
    fewest_rows,
    nearest_candidates,
)

if TYPE_CHECKING:
    import faiss
    import pyarrow as pa

    from ...models.inference.long_documents import Passages
    from .fitted_state import FittedState

logger = logging.getLogger(__name__)

PASSAGES_PER_ROW = 4  # fetched from an index for each row that is wanted, and again as many times if these are too few


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a datastore at one moment. Nothing in it ever changes, so it is searched without a lock.

    An index is not changed either once it is built. Rows that were added since form a tail, which is searched exactly;
    rows that were removed since are left out of what the index finds.
    """

    keys: np.ndarray | MappedKeys  # float32 or float16 (N, D)
    labels: np.ndarray  # int64 (N,), or bool (N, C) where rows have several labels
    rows: pa.Table  # ids and texts, as make_rows gives them
    label_names: tuple[str, ...]
    next_id: int  # where the counter of automatic ids stands
    options: IndexOptions
    probe: np.ndarray | None = None  # the encoder's fingerprint, float32 (P, D)
    index: faiss.Index | None = None  # None for exact search
    index_rows: np.ndarray | None = None  # int64, the row of each key in the index; -1 if it was removed
    indexed: int = 0  # how many rows of the index are still there: the first ones, in the same order
    passages: PassageTable | None = None  # None where each row has one, which is its key
    documents: Snapshot | None = None  # unlabeled: no label names, labels (N, 0), no probe, no index
    fitted: FittedState | None = None

    @property
    def multi_label(self) -> bool:
        """Whether rows may have several labels."""
        return self.labels.ndim == 2

    @property
    def outside_index(self) -> int:
        """How many keys were added or removed since the index was built, of passages where rows have several."""
        if self.index is None:
            return 0
        return len(self.searched) + len(self.index_rows) - 2 * int((self.index_rows >= 0).sum())

    @property
    def searched(self) -> np.ndarray:
        """The keys that a search compares with: of the passages, where rows have several."""
        return self.keys if self.passages is None else self.passages.keys

    @property
    def counts(self) -> np.ndarray:
        """Passages per row, int64 ``(N,)``."""
        return np.ones(len(self.keys), dtype=np.int64) if self.passages is None else self.passages.counts

    def check_encoder(self, probe: Any) -> None:
        """Refuse an encoder other than the one that made the keys."""
        if self.probe is None:
            logger.warning("The datastore has no probe, so whether this encoder made its keys cannot be checked.")
        else:
            check_probe(as_matrix(probe, "probe"), self.probe)

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> Neighbors:
        """The k nearest rows of each query, or all if there are fewer. ``queries``: ``(Q, D)``."""
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
        if len(self.keys) == 0:
            raise ValueError("The datastore is empty, so there are no neighbors: add examples first.")
        queries = as_matrix(queries, "queries", self.keys.shape[1])
        check_finite(queries, "queries")
        queries = queries.astype(np.float32, order="C", copy=False)
        k = min(int(k), len(self.keys))
        asked = None if passages is None else check_passages(passages, queries)
        if asked is not None or self.passages is not None:
            return self._search_passages(queries, asked, k)
        if self.index is None:
            distances, rows = exact_search(queries, self.keys, k)
        else:
            distances, rows = self._search_index(queries, k)
        return Neighbors(distances, self.labels[rows], rows, self.label_names, self.rows, self.keys)

    def _search_passages(self, queries: np.ndarray, asked: PassageTable | None, k: int) -> Neighbors:
        counts = np.ones(len(queries), dtype=np.int64)
        if asked is not None:
            check_finite(asked.keys, "embeddings of passages")
            queries, counts = asked.keys.astype(np.float32, order="C", copy=False), asked.counts
        if self.index is None:
            found = grouped_search(queries, counts, self.searched, self.counts, k)
        else:
            own = np.split(queries, np.cumsum(counts)[:-1])
            found = join_queries([self._search_index_of_passages(query, k) for query in own[: len(counts)]], k)
        rows = found.rows
        labels, passages = self.labels[rows], (self.passages, found.passages, found.query_passages)
        return Neighbors(found.distances, labels, rows, self.label_names, self.rows, self.keys, *passages)

    def _search_index_of_passages(self, query: np.ndarray, k: int) -> GroupedNeighbors:
        """As ``_search_index``, but of one query, its passages ``(u, D)``."""
        more = PASSAGES_PER_ROW if len(query) > 1 else 1  # what is near by one passage need not be by several
        counts, wanted = self.counts, min(more * self.options.candidates(k), self.indexed)
        entries, rows = len(self.index_rows), np.zeros(0, dtype=np.int64)
        fetched = max(wanted, 1)
        while len(rows) < wanted and fetched < PASSAGES_PER_ROW * entries:  # many passages of a few rows may be near
            fetched *= PASSAGES_PER_ROW
            found = approximate_search(self.index, query, min(fetched, entries))
            rows = np.unique(self.index_rows[found[found >= 0]])
            rows = rows[rows >= 0]
        parts = []
        if len(rows):
            parts.append(grouped_among(query, self.searched, counts, rows, min(k, len(rows))))
        if len(self.keys) > self.indexed:
            tail = np.arange(self.indexed, len(self.keys))
            parts.append(grouped_among(query, self.searched, counts, tail, min(k, len(tail))))
        if sum(part.rows.shape[1] for part in parts) < k:  # a graph may not be connected
            return grouped_search(query, np.array([len(query)]), self.searched, counts, k)
        return nearest_of(parts, k)

    def _search_index(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        wanted = self.options.candidates(k)
        removed = len(self.index_rows) - self.indexed
        found = approximate_search(self.index, queries, min(wanted + min(removed, wanted), len(self.index_rows)))
        candidates = np.where(found < 0, -1, self.index_rows[found])
        if len(self.keys) > self.indexed:
            tail = self.keys[self.indexed :]
            candidates = np.hstack([candidates, exact_search(queries, tail, min(k, len(tail)))[1] + self.indexed])
        distances, rows = nearest_candidates(queries, self.keys, candidates, k)
        # Nearly all that the index found may have been removed since, and a graph may not be connected.
        short = rows[:, -1] < 0
        if short.any():
            distances[short], rows[short] = exact_search(queries[short], self.keys, k)
        return distances, rows


class Buffers:
    """The arrays behind the snapshots of a datastore, which grow without being copied. One writer at a time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.keys = growable(snapshot.keys)
        self.labels = GrowableArray(snapshot.labels)
        self.passages = None if snapshot.passages is None else PassageBuffers(snapshot.passages)
        self.documents = None if snapshot.documents is None else Buffers(snapshot.documents)


def empty_snapshot(
    dimension: int,
    label_names: Sequence[str],
    multi_label: bool,
    dtype: str = "float32",
    index: str = EXACT,
    nprobe: int | None = None,
    rerank: int | None = None,
    probe: Any = None,
) -> Snapshot:
    """The first snapshot of a datastore, without rows; the arguments are those of ``KNNDatastore``."""
    options = IndexOptions(index, nprobe, rerank)
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")
    names = tuple(label_names)
    if isinstance(label_names, str) or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"label_names must be different strings, got {label_names!r}.")
    if index != EXACT:
        fewest_rows(index, dimension)  # FAISS's own refusal comes now, not when there are enough rows
    if probe is not None:
        probe = as_matrix(probe, "probe", dimension)
        check_finite(probe, "probe")
        probe = probe.astype(np.float32)
    labels = np.zeros((0, len(names)), dtype=bool) if multi_label else np.zeros(0, dtype=np.int64)
    return Snapshot(np.zeros((0, dimension), dtype=dtype), labels, make_rows(0, []), names, 0, options, probe)


def add_rows(
    snapshot: Snapshot,
    buffers: Buffers,
    keys: np.ndarray,
    labels: np.ndarray,
    label_names: tuple[str, ...],
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    ids: Iterable[str] | None = None,
    passages: Passages | None = None,
) -> Snapshot:
    """A snapshot with rows at the end, which its index does not know. New names of labels are the last ones."""
    if len(labels) != len(keys):
        raise ValueError(f"There are {len(keys)} keys, but {len(labels)} labels: pass one for each key.")
    next_id = snapshot.next_id
    taken = [] if snapshot.documents is None else [snapshot.documents.rows]
    if ids is None:
        ids, next_id = automatic_ids(len(keys), next_id, snapshot.rows, *taken)
    rows = make_rows(len(keys), ids, texts, text_pairs)
    table = None if passages is None else check_passages(passages, keys)
    return append(snapshot, buffers, keys, labels, rows, table, *taken, label_names=label_names, next_id=next_id)


def append(
    snapshot: Snapshot,
    buffers: Buffers,
    keys: np.ndarray,
    labels: np.ndarray,
    rows: pa.Table,
    passages: PassageTable | None,
    *taken: pa.Table,
    **changes: Any,
) -> Snapshot:
    """A snapshot with rows that have ids, which may be neither its own nor those of the tables ``taken``."""
    length = len(snapshot.keys)
    table = append_rows(snapshot.rows, rows, *taken)
    grown = buffers.keys.appended(length, keys)
    check_finite(grown[length:], "keys")
    if passages is not None:
        if isinstance(snapshot.keys, MappedKeys):
            raise ValueError(
                "Rows on the disk have one vector each, and these have several passages: take another long_documents, "
                "or a datastore in memory."
            )
        check_spans(passages, rows)
    if snapshot.passages is not None or passages is not None:
        changes["passages"] = _append_passages(snapshot, buffers, passages or whole_rows(keys, rows))
    return replace(snapshot, keys=grown, labels=buffers.labels.appended(length, labels), rows=table, **changes)


def _append_passages(snapshot: Snapshot, buffers: Buffers, more: PassageTable) -> PassageTable:
    before = snapshot.passages
    if before is None:
        before = whole_rows(snapshot.keys, snapshot.rows)
        buffers.passages = PassageBuffers(before)
    return buffers.passages.appended(before, more)


def remove_rows(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """A snapshot without some rows, in arrays of its own. The others move up, and keep their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(ids, str):
        raise ValueError(f"remove takes a list of ids, got one string: pass [{ids!r}].")
    ids = list(ids)
    found = ids_among(ids, snapshot.rows)
    for row_id in ids:
        if row_id not in found:
            raise ValueError(f"There is no row with the id {row_id!r}: ids are strings, as add and search give them.")
    removed = pc.is_in(snapshot.rows["id"], value_set=pa.array(ids, pa.string()))
    kept = ~removed.to_numpy()
    keys, labels = keep(snapshot.keys, kept), snapshot.labels[kept]
    freeze(keys, labels)
    passages = snapshot.passages and keep_rows(snapshot.passages, kept)
    rows = without(snapshot.rows, kept)
    changed = replace(snapshot, keys=keys, labels=labels, rows=rows, passages=passages)
    if snapshot.index is None:
        return changed
    rows_now = np.where(kept, np.cumsum(kept) - 1, -1)
    index_rows = np.where(snapshot.index_rows < 0, -1, rows_now[snapshot.index_rows])
    return replace(changed, index_rows=index_rows, indexed=int(index_rows.max(initial=-1)) + 1)


def relabel_rows(snapshot: Snapshot, ids: Sequence[str], labels: np.ndarray) -> Snapshot:
    """A snapshot in which the rows of some ids have other labels, int64 ``(n,)`` or bool ``(n, C)``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for row_id in ids:
        if not isinstance(row_id, str):
            raise ValueError(f"There is no row with the id {row_id!r}: ids are strings, as add and search give them.")
    places = pc.index_in(pa.array(ids, pa.string()), value_set=snapshot.rows["id"].combine_chunks())
    if places.null_count:
        unknown = ids[places.is_null().index(True).as_py()]
        raise ValueError(f"There is no row with the id {unknown!r}: ids are strings, as add and search give them.")
    changed = snapshot.labels.copy()
    changed[places.to_numpy()] = labels
    changed.flags.writeable = False
    return replace(snapshot, labels=changed)
