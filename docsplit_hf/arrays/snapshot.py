"""Snapshots of a datastore: searched by embedding, and by equal texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from ..reading.characters import replace_lone_surrogates
from ..reading.origins import Origin, PlaceShown
from .grouped_search import GroupedNeighbors, grouped_among, grouped_search, join_queries
from .index import IndexOptions, approximate_search
from .keys import as_queries, candidate_distances, exact_search, freeze, nearest_candidates
from .mapped_keys import MappedKeys
from .passages import Passages, check_passages, take_passages
from .row_table import TEXT_COLUMNS, TextTable, rows_at, values_of

if TYPE_CHECKING:
    import faiss
    import pyarrow as pa

    from .fitted_state import FittedState

PASSAGES_PER_ROW = 4  # passages fetched from an index per wanted row; multiplied by this again while rows are too few
# Relative to the squared norm. Embeddings of one text in two batches differ by about 1e-12; those of texts that differ
# in one of hundreds of words, by more than 1e-6.
EQUAL_DISTANCE = 1e-10
EQUAL = 1e-9  # the same for vectors that were centered and normalized


class TextSpan(PlaceShown, total=False):
    """Part of a text, in characters; its text if it is kept, and its file and pages if it comes from one."""

    start: int
    end: int
    text: str


class ExampleShown(TypedDict, total=False):
    """One result of a search. ``label`` or ``labels``: names. ``passage``: only of a row with several passages."""

    label: str
    labels: list[str]
    text: str | None
    text_pair: str | None
    id: str
    distance: float  # squared L2
    file: str  # only of a text that comes from a file
    passage: TextSpan


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The k nearest rows of Q queries, nearest first, from one snapshot of the datastore.

    ``distances``: squared L2, float32 ``(Q, k)``. ``labels``: int64 ``(Q, k)``, or bool ``(Q, k, C)`` with several
    labels per row. ``rows``: positions in the snapshot, int64 ``(Q, k)``; removing rows moves others, ids stay.
    ``table``, ``keys``, ``passages``: ids and texts, keys, and passages of all rows; ``passages`` is None if each row
    has one.

    If rows or queries have several passages, ``nearest`` is the position of the row's nearest passage among all
    passages, and ``query_passages`` the number of the query's passage that it is nearest to, both int64 ``(Q, k)``;
    otherwise they are None.
    """

    distances: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    label_names: tuple[str, ...]
    table: pa.Table | TextTable = field(repr=False)
    keys: np.ndarray = field(repr=False)
    passages: Passages | None = field(default=None, repr=False)
    nearest: np.ndarray | None = None
    query_passages: np.ndarray | None = None

    @property
    def ids(self) -> list[list[str]]:
        """Ids: Q lists of k."""
        return self._column("id")

    @property
    def texts(self) -> list[list[str | None]]:
        """Texts: Q lists of k."""
        return self._column("text")

    def example(self, query: int, rank: int) -> ExampleShown:
        """Return one result with the names of its labels; rank 0 is the nearest."""
        label = self.labels[query, rank]
        position = int(self.rows[query, rank])
        names = [self.label_names[i] for i in (np.flatnonzero(label) if label.ndim else [label])]
        row = {name: values_of(self.table[name], np.array([position]))[0] for name in TEXT_COLUMNS}
        shown: ExampleShown = {"labels": names} if label.ndim else {"label": names[0]}
        shown["text"] = row["text"]
        shown["text_pair"] = row["text_pair"]
        shown["id"] = row["id"]
        shown["distance"] = float(self.distances[query, rank])
        origin = None if row["file"] is None else Origin.from_json(row["file"], row["places"])
        if origin is not None:
            shown["file"] = origin.file
        if self.passages is not None and self.passages.counts[position] > 1:
            start, end = self.passages.spans[self.nearest[query, rank]].tolist()
            shown["passage"] = {"start": start, "end": end}
            if row["text"] is not None:
                shown["passage"]["text"] = row["text"][start:end]
            if origin is not None:
                shown["passage"] |= origin.shown(start, end)
        return shown

    def query_passage(self, query: int, rank: int) -> int:
        """Return the number of the query's passage that a result is nearest to, if queries have several."""
        return int(self.query_passages[query, rank])

    def _column(self, name: str) -> list[list[Any]]:
        values = iter(values_of(self.table[name], self.rows.ravel()))
        return [[next(values) for _ in row] for row in self.rows]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The immutable state of a datastore at one moment, searched without a lock.

    The index is immutable as well. Rows added since it was built are searched exactly; rows removed since are left out
    of its results.
    """

    keys: np.ndarray | MappedKeys  # float32 or float16 (N, D)
    labels: np.ndarray  # int64 (N,), or bool (N, C) with several labels per row
    rows: pa.Table | TextTable  # ids and texts, from make_rows; a TextTable where they are only read
    label_names: tuple[str, ...]
    next_id: int = 0  # next automatic id
    options: IndexOptions = IndexOptions()
    probe: np.ndarray | None = None  # probe embeddings by the encoder of the keys, float32 (P, D)
    index: faiss.Index | None = None  # None for exact search
    index_rows: np.ndarray | None = None  # int64: row of each key in the index; -1 if it was removed
    indexed: int = 0  # number of rows in the index: the first ones, in its order
    passages: Passages | None = None  # None if each row has one, its key
    documents: Snapshot | None = None  # without labels: no label names, labels (N, 0), no probe
    fitted: FittedState | None = None

    @property
    def multi_label(self) -> bool:
        """Whether rows may have several labels."""
        return self.labels.ndim == 2

    @property
    def document_count(self) -> int:
        """Number of documents without labels."""
        return 0 if self.documents is None else len(self.documents.keys)

    @property
    def outside_index(self) -> int:
        """Number of searched keys that were added or removed since the index was built."""
        if self.index is None:
            return 0
        return len(self.searched) + len(self.index_rows) - 2 * int((self.index_rows >= 0).sum())

    @property
    def searched(self) -> np.ndarray:
        """Keys that are compared with queries: those of the passages, if rows have several."""
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
        """Return some rows, without documents, index and fitted state."""
        return replace(
            self,
            keys=self.keys[rows],
            labels=self.labels[rows],
            rows=rows_at(self.rows, rows),
            passages=take_passages(self.passages, rows),
            index=None,
            index_rows=None,
            indexed=0,
            documents=None,
            fitted=None,
        )

    def sample(self, passages: int, least: int) -> Snapshot:
        """Draw about as many rows as have ``passages``, but at least ``least``; the same each time."""
        count = len(self.keys)
        size = min(count, max(passages * count // max(len(self.searched), 1), least))
        return self.take(np.sort(np.random.default_rng(0).choice(count, size, replace=False)))

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """Find the k nearest rows of each query, ``(Q, D)``, without the documents; all of them if there are fewer."""
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
        if len(self.keys) == 0:
            raise ValueError("The datastore is empty, so there are no neighbors: add examples first.")
        queries = as_queries(queries, "queries", self.keys.shape[1])
        k = min(int(k), len(self.keys))
        query_passages = None if passages is None else check_passages(passages, queries)
        if query_passages is None and self.passages is None:
            distances, rows = self._search_keys(queries, k)
            found = GroupedNeighbors(distances, rows, passages=None, query_passages=None)
        else:
            found = self._search_passages(queries, query_passages, k)
        return SearchResult(
            distances=found.distances,
            labels=self.labels[found.rows],
            rows=found.rows,
            label_names=self.label_names,
            table=self.rows,
            keys=self.keys,
            passages=self.passages,
            nearest=found.passages,
            query_passages=found.query_passages,
        )

    def _search_passages(self, queries: np.ndarray, query_passages: Passages | None, k: int) -> GroupedNeighbors:
        """Search by passages, of the queries if they have several."""
        counts = np.ones(len(queries), dtype=np.int64)
        if query_passages is not None:
            queries = query_passages.embeddings.astype(np.float32, order="C", copy=False)
            counts = query_passages.counts
        if self.index is None:
            return grouped_search(queries, counts, self.searched, self.counts, k)
        passages_of_queries = np.split(queries, np.cumsum(counts)[:-1])[: len(counts)]
        return join_queries([self._search_index_of_passages(query, k) for query in passages_of_queries], k)

    def _search_index_of_passages(self, query: np.ndarray, k: int) -> GroupedNeighbors:
        """Search the index and the rows outside it for one query, its passages ``(u, D)``."""
        more = PASSAGES_PER_ROW if len(query) > 1 else 1  # a row near one passage may be far from the others
        wanted = min(more * self.options.candidates(k), self.indexed)
        entries = len(self.index_rows)
        rows = np.zeros(0, dtype=np.int64)
        fetched = max(wanted, 1)
        while len(rows) < wanted and fetched < PASSAGES_PER_ROW * entries:  # near passages may belong to a few rows
            fetched *= PASSAGES_PER_ROW
            found = approximate_search(self.index, query, min(fetched, entries))
            rows = np.unique(self.index_rows[found[found >= 0]])
            rows = rows[rows >= 0]
        among = np.concatenate([rows, np.arange(self.indexed, len(self.keys))])
        if len(among) < k:  # a graph may not be connected
            return grouped_search(query, np.array([len(query)]), self.searched, self.counts, k)
        return grouped_among(query, self.searched, self.counts, among, k)

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
        # Most results of the index may have been removed since, and a graph may not be connected.
        short = rows[:, -1] < 0
        if short.any():
            distances[short], rows[short] = exact_search(queries[short], self.keys, k)
        return distances, rows


def number_texts(
    table: pa.Table, texts: Sequence[str | None], text_pairs: Sequence[str | None] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Number the rows of a table and some texts; numbers are equal if and only if text and pair are.

    Returns int64 ``(N,)`` for the rows, -1 for rows with none of the texts, and ``(M,)`` for the texts. A text of None
    equals no text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    given = pa.array([text and replace_lone_surrogates(text) for text in texts], pa.string())
    second_texts = [None] * len(given) if text_pairs is None else text_pairs
    pairs = pa.array([pair and replace_lone_surrogates(pair) for pair in second_texts], pa.string())

    columns = ((table["text"], table["text_pair"]), (pa.chunked_array([given]), pa.chunked_array([pairs])))
    numbers = []
    for text, text_pair in columns:
        first = pc.index_in(text, value_set=given.unique(), skip_nulls=True)
        second = pc.index_in(text_pair, value_set=pairs.unique())
        first = pc.fill_null(first, -1).to_numpy().astype(np.int64)
        second = pc.fill_null(second, -1).to_numpy().astype(np.int64)
        numbers.append(np.where((first < 0) | (second < 0), -1, first * len(pairs) + second))
    return numbers[0], numbers[1]


def rows_of_texts(table: pa.Table, texts: Sequence[str], text_pairs: Sequence[str | None]) -> np.ndarray:
    """The last row of a table with each text and pair, int64 ``(M,)``; -1 without one."""
    in_table, own = number_texts(table, texts, text_pairs)
    rows = {number: row for row, number in enumerate(in_table.tolist()) if number >= 0}
    return np.array([rows.get(number, -1) for number in own.tolist()], dtype=np.int64)


def equal_neighbors(
    neighbors: SearchResult, queries: np.ndarray, texts: Sequence[str | None], text_pairs: Sequence[str | None] | None
) -> np.ndarray:
    """Mark results, bool ``(Q, k)``, with the text and pair of the query, or with an equal embedding."""
    in_table, own = number_texts(neighbors.table, texts, text_pairs)
    equal_texts = (in_table[neighbors.rows] == own[:, None]) & (own >= 0)[:, None]
    norms = np.square(queries, dtype=np.float64).sum(1, keepdims=True)
    distances = neighbors.distances
    if neighbors.nearest is not None:  # the passages of a document may all be in a longer one
        distances = candidate_distances(queries.astype(np.float32, copy=False), neighbors.keys, neighbors.rows)
    return equal_texts | (distances <= EQUAL_DISTANCE * norms)


class StoredExample(NamedTuple):
    """The text and pair, the labels and the id of a row."""

    content: tuple[str, str | None]
    labels: frozenset[str]
    id: str


def examples_of_texts(
    snapshot: Snapshot, texts: Sequence[str], text_pairs: Sequence[str | None]
) -> list[StoredExample]:
    """The rows with one of these texts and its pair, in their order."""
    in_table, own = number_texts(snapshot.rows, texts, text_pairs)
    contents = dict(zip(own.tolist(), zip(texts, text_pairs, strict=True), strict=True))
    rows = np.flatnonzero(np.isin(in_table, own) & (in_table >= 0))
    ids = values_of(snapshot.rows["id"], rows)
    found = []
    for number, label, row_id in zip(in_table[rows].tolist(), snapshot.labels[rows], ids, strict=True):
        numbers = np.flatnonzero(label) if label.ndim else [label]
        labels = frozenset(snapshot.label_names[i] for i in numbers)
        found.append(StoredExample(contents[number], labels, row_id))
    return found
