"""Neighbors: what a search found, with all that is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .row_table import values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .keys.passage_table import PassageTable


@dataclass(frozen=True, eq=False)
class Neighbors:
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
    passages: PassageTable | None = field(default=None, repr=False)
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
        label = self.labels[query, rank]
        names = [self.label_names[i] for i in (np.flatnonzero(label) if label.ndim else [label])]
        row = self.table.slice(int(self.rows[query, rank]), 1).to_pylist()[0]
        return {
            **({"labels": names} if label.ndim else {"label": names[0]}),
            "text": row["text"],
            "text_pair": row["text_pair"],
            "id": row["id"],
            "distance": float(self.distances[query, rank]),
            **self._passage(query, rank, row["text"]),
        }

    def _passage(self, query: int, rank: int, text: str | None) -> dict[str, Any]:
        if self.passages is None or self.passages.counts[self.rows[query, rank]] == 1:
            return {}
        start, end = self.passage_spans[query, rank].tolist()
        said = {} if text is None else {"text": text[start:end]}
        return {"passage": {"start": start, "end": end, **said}}

    def _column(self, name: str) -> list[list[Any]]:
        values = iter(values_of(self.table[name], self.rows.ravel()))
        return [[next(values) for _ in row] for row in self.rows]
