"""Snapshot: the rows of a datastore at one moment, how they are searched, and SearchResult, what a search finds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...text.characters import replace_lone_surrogates
from .grouped_search import GroupedNeighbors, grouped_among, grouped_search, join_queries
from .index import IndexOptions, approximate_search
from .keys import as_queries, exact_search, freeze, nearest_candidates
from .mapped_keys import MappedKeys
from .row_table import check_passages, rows_at, take_passages, values_of

if TYPE_CHECKING:
    import faiss
    import pyarrow as pa

    from ...models.inference.long_documents import Passages

DTYPES = ("float32", "float64", "int64", "int32", "bool")


@dataclass(frozen=True, eq=False)
class FittedState:
    """Settings, arrays and a vocabulary, copied and checked: what is kept can be saved, and never changes.

    ``settings``: what JSON gives back as it was. ``arrays``: of ``DTYPES``, and finite, by name; they become read-only.
    ``vocabulary``: any strings without lone surrogates.
    """

    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]
    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", _as_json(self.settings))
        object.__setattr__(self, "arrays", {name: _frozen(name, array) for name, array in self.arrays.items()})
        object.__setattr__(self, "vocabulary", tuple(self.vocabulary))
        for term in self.vocabulary:
            if not _is_text(term):
                raise ValueError(
                    f"The term {term!r} of the vocabulary is no string, or has half a character (a lone surrogate): "
                    "clean it with docsplit_hf.text.characters.replace_lone_surrogates."
                )

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # A pickle does not keep that arrays are read-only.
        return FittedState, (self.settings, self.arrays, self.vocabulary)


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    try:
        copied = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The settings of a fitted state must be JSON, and they are not: {error}.") from error
    if copied != settings or not isinstance(copied, dict):
        raise ValueError(f"JSON gives the settings {settings!r} back as {copied!r}: use lists, and strings as names.")
    return copied


def _frozen(name: str, array: np.ndarray) -> np.ndarray:
    if not _is_text(name) or name == "__metadata__":  # which safetensors keeps for itself
        raise ValueError(f"An array of a fitted state is named {name!r}: give it another name.")
    if not isinstance(array, np.ndarray) or array.dtype not in map(np.dtype, DTYPES):
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"The array {name!r} of a fitted state is {kind}, not one of {', '.join(DTYPES)}: convert it.")
    if not np.isfinite(array).all():
        raise ValueError(f"The array {name!r} of a fitted state holds NaN or infinity: fit again.")
    copied = np.array(array, order="C")  # contiguous, as safetensors must have it
    copied.flags.writeable = False
    return copied


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and replace_lone_surrogates(value) == value


PASSAGES_PER_ROW = 4  # fetched from an index for each row that is wanted, and again as many times if these are too few


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The k nearest rows of Q queries, nearest first. All of it comes from one snapshot of the datastore.

    ``distances``: squared L2, float32 ``(Q, k)``. ``labels``: int64 ``(Q, k)``, or bool ``(Q, k, C)`` where rows have
    several. ``rows``: int64 ``(Q, k)``, where they were then: removing rows moves others, ids stay. ``table``,
    ``keys``, ``passages``: ids and texts, keys, and passages of all rows then; None where each row had one passage.

    Where rows or queries have several passages, ``nearest`` is the place of the row's nearest one among all passages,
    and ``query_passages`` the number of the query's own that it is nearest to, both int64 ``(Q, k)``; else None.
    """

    distances: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    label_names: tuple[str, ...]
    table: pa.Table = field(repr=False)
    keys: np.ndarray = field(repr=False)
    passages: Passages | None = field(default=None, repr=False)
    nearest: np.ndarray | None = None
    query_passages: np.ndarray | None = None

    @property
    def ids(self) -> list[list[str]]:
        """The neighbors' ids: Q lists of k."""
        return self._column("id")

    @property
    def texts(self) -> list[list[str | None]]:
        """The neighbors' texts: Q lists of k."""
        return self._column("text")

    @property
    def text_pairs(self) -> list[list[str | None]]:
        """The second texts of the neighbors: Q lists of k."""
        return self._column("text_pair")

    @property
    def passage_spans(self) -> np.ndarray | None:
        """Where the nearest passages stand in the neighbors' texts, int64 ``(Q, k, 2)``; None if rows have one each."""
        return None if self.passages is None else self.passages.spans[self.nearest]

    def example(self, query: int, rank: int) -> dict[str, Any]:
        """One neighbor with its ``label`` (or ``labels``) by name; rank 0 is the nearest.

        ``passage``: of a row that has several, where the nearest one stands in its text, and what it says.
        """
        label, place = self.labels[query, rank], int(self.rows[query, rank])
        names = [self.label_names[i] for i in (np.flatnonzero(label) if label.ndim else [label])]
        row = self.table.slice(place, 1).to_pylist()[0]
        shown = {"labels": names} if label.ndim else {"label": names[0]}
        shown |= {name: row[name] for name in ("text", "text_pair", "id")}
        shown["distance"] = float(self.distances[query, rank])
        if self.passages is not None and self.passages.counts[place] > 1:
            start, end = self.passage_spans[query, rank].tolist()
            said = {} if row["text"] is None else {"text": row["text"][start:end]}
            shown["passage"] = {"start": start, "end": end, **said}
        return shown

    def query_passage(self, query: int, rank: int) -> int:
        """Which passage of the query, by number, a neighbor is nearest to, where the query has several."""
        return int(self.query_passages[query, rank])

    def _column(self, name: str) -> list[list[Any]]:
        values = iter(values_of(self.table[name], self.rows.ravel()))
        return [[next(values) for _ in row] for row in self.rows]


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
    next_id: int = 0  # where the counter of automatic ids stands
    options: IndexOptions = IndexOptions()
    probe: np.ndarray | None = None  # the encoder's fingerprint, float32 (P, D)
    index: faiss.Index | None = None  # None for exact search
    index_rows: np.ndarray | None = None  # int64, the row of each key in the index; -1 if it was removed
    indexed: int = 0  # how many rows of the index are still there: the first ones, in the same order
    passages: Passages | None = None  # None where each row has one, which is its key
    documents: Snapshot | None = None  # unlabeled: no label names, labels (N, 0), no probe
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
        return self.keys if self.passages is None else self.passages.embeddings

    @property
    def counts(self) -> np.ndarray:
        """Passages per row, int64 ``(N,)``."""
        return np.ones(len(self.keys), dtype=np.int64) if self.passages is None else self.passages.counts

    def freeze(self) -> None:
        """Make all arrays read-only."""
        freeze(self.keys, self.labels, *(self.passages or ()))
        if self.documents is not None:
            self.documents.freeze()

    def take(self, rows: np.ndarray) -> Snapshot:
        """Some rows alone, without documents, index and what was fitted."""
        alone = {"index": None, "index_rows": None, "indexed": 0, "documents": None, "fitted": None}
        alone["passages"] = take_passages(self.passages, rows)
        return replace(self, keys=self.keys[rows], labels=self.labels[rows], rows=rows_at(self.rows, rows), **alone)

    def sampled_rows(self, passages: int, least: int) -> np.ndarray:
        """As many random rows as have so many passages, always the same, ascending; at least ``least``, or all."""
        count = len(self.keys)
        size = min(count, max(passages * count // max(len(self.searched), 1), least))
        return np.sort(np.random.default_rng(0).choice(count, size, replace=False))

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """The k nearest rows of each query, or all if there are fewer. ``queries``: ``(Q, D)``."""
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
        if len(self.keys) == 0:
            raise ValueError("The datastore is empty, so there are no neighbors: add examples first.")
        queries = as_queries(queries, "queries", self.keys.shape[1])
        k, asked = min(int(k), len(self.keys)), None if passages is None else check_passages(passages, queries)
        if asked is not None or self.passages is not None:
            found = self._search_passages(queries, asked, k)
            distances, rows, more = found.distances, found.rows, (self.passages, found.passages, found.query_passages)
        else:
            distances, rows = self._search_keys(queries, k)
            more = ()
        return SearchResult(distances, self.labels[rows], rows, self.label_names, self.rows, self.keys, *more)

    def _search_passages(self, queries: np.ndarray, asked: Passages | None, k: int) -> GroupedNeighbors:
        counts = np.ones(len(queries), dtype=np.int64)
        if asked is not None:
            queries, counts = asked.embeddings.astype(np.float32, order="C", copy=False), asked.counts
        if self.index is None:
            return grouped_search(queries, counts, self.searched, self.counts, k)
        own = np.split(queries, np.cumsum(counts)[:-1])
        return join_queries([self._search_index_of_passages(query, k) for query in own[: len(counts)]], k)

    def _search_index_of_passages(self, query: np.ndarray, k: int) -> GroupedNeighbors:
        """The answer to one query, its passages ``(u, D)``."""
        more = PASSAGES_PER_ROW if len(query) > 1 else 1  # what is near by one passage need not be by several
        counts, wanted = self.counts, min(more * self.options.candidates(k), self.indexed)
        entries, rows = len(self.index_rows), np.zeros(0, dtype=np.int64)
        fetched = max(wanted, 1)
        while len(rows) < wanted and fetched < PASSAGES_PER_ROW * entries:  # many passages of a few rows may be near
            fetched *= PASSAGES_PER_ROW
            found = approximate_search(self.index, query, min(fetched, entries))
            rows = np.unique(self.index_rows[found[found >= 0]])
            rows = rows[rows >= 0]
        among = np.concatenate([rows, np.arange(self.indexed, len(self.keys))])
        if len(among) < k:  # a graph may not be connected
            return grouped_search(query, np.array([len(query)]), self.searched, counts, k)
        return grouped_among(query, self.searched, counts, among, k)

    def _search_keys(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        if self.index is None:
            return exact_search(queries, self.keys, k)
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
