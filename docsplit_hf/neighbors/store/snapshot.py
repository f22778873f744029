"""Snapshot: the state of a datastore at one moment, and the search in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .index import IndexOptions, approximate_search, exact_search, nearest_candidates

if TYPE_CHECKING:
    import faiss
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The k nearest rows of Q queries, nearest first. All of it comes from one snapshot of the datastore.

    Args:
        distances: Squared L2, float32 ``(Q, k)``, ascending, and exact for the rows that are given.
        labels: int64 ``(Q, k)``; bool ``(Q, k, C)`` where rows have several labels.
        rows: int64 ``(Q, k)``: where the rows were in the datastore then. Removing rows moves others; ids stay.
        label_names: The names of the C labels then.
        table: Ids and texts of all rows then.
    """

    distances: np.ndarray
    labels: np.ndarray
    rows: np.ndarray
    label_names: tuple[str, ...]
    table: pa.Table = field(repr=False)

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

    def example(self, query: int, rank: int) -> dict[str, Any]:
        """One neighbor, to show it.

        Args:
            query: Of which query.
            rank: 0 for its nearest neighbor.

        Returns:
            ``label``, a name (or ``labels``, a list of names), ``text``, ``text_pair``, ``id`` and ``distance``.

        Raises:
            IndexError: If there is no such neighbor.
        """
        label = self.labels[query, rank]
        names = [self.label_names[i] for i in (np.flatnonzero(label) if label.ndim else [label])]
        row = self.table.slice(int(self.rows[query, rank]), 1).to_pylist()[0]
        return {
            **({"labels": names} if label.ndim else {"label": names[0]}),
            "text": row["text"],
            "text_pair": row["text_pair"],
            "id": row["id"],
            "distance": float(self.distances[query, rank]),
        }

    def _column(self, name: str) -> list[list[Any]]:
        values = iter(self.table[name].take(self.rows.ravel()).to_pylist())
        return [[next(values) for _ in row] for row in self.rows]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a datastore at one moment. Nothing in it ever changes, so that it is searched without a lock.

    An index is not changed either once it is built. Rows that were added since form a tail, which is searched exactly;
    rows that were removed since are left out of what the index finds.

    Args:
        keys: float32 or float16 ``(N, D)``.
        labels: int64 ``(N,)``; bool ``(N, C)`` where rows have several labels.
        rows: Ids and texts, as ``make_rows`` gives them.
        label_names: The names of the C labels.
        next_id: Where the counter of automatic ids stands.
        options: What it is searched with.
        probe: The fingerprint of the encoder, float32 ``(P, D)``.
        index: None for exact search.
        index_rows: int64, the row of each row of the index; -1 if it was removed.
        indexed: How many rows of the index are still there. They are the first ones, in the same order.

    Example:

        >>> from docsplit_hf.neighbors.store.row_table import make_rows
        >>> keys, rows = np.eye(3, dtype=np.float32), make_rows(3, ["a", "b", "c"])
        >>> snapshot = Snapshot(keys, np.array([0, 1, 1]), rows, ("fruit", "mineral"), 0, IndexOptions())
        >>> snapshot.search(keys[1:2], k=2).example(0, 0)
        {'label': 'mineral', 'text': None, 'text_pair': None, 'id': 'b', 'distance': 0.0}
    """

    keys: np.ndarray
    labels: np.ndarray
    rows: pa.Table
    label_names: tuple[str, ...]
    next_id: int
    options: IndexOptions
    probe: np.ndarray | None = None
    index: faiss.Index | None = None
    index_rows: np.ndarray | None = None
    indexed: int = 0

    @property
    def multi_label(self) -> bool:
        """Whether rows may have several labels."""
        return self.labels.ndim == 2

    @property
    def outside_index(self) -> int:
        """How many rows were added or removed since the index was built."""
        return 0 if self.index is None else len(self.keys) + len(self.index_rows) - 2 * self.indexed

    def search(self, queries: np.ndarray, k: int) -> Neighbors:
        """The nearest rows.

        Args:
            queries: float32 ``(Q, D)``, finite.
            k: At least 1. No more than there are rows are given.

        Returns:
            The neighbors.
        """
        k = min(k, len(self.keys))
        if self.index is None:
            distances, rows = exact_search(queries, self.keys, k)
        else:
            distances, rows = self._search_index(queries, k)
        return Neighbors(distances, self.labels[rows], rows, self.label_names, self.rows)

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
