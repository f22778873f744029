"""Rows that were found by their words, beside the nearest: the exact distances of both, and the BM25 of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..keys.passage_table import take_passages
from ..neighbors import Neighbors, of_queries
from ..sampling import take_rows

if TYPE_CHECKING:
    from ....models.inference.passages import Passages
    from ..keys.passage_table import PassageTable
    from ..snapshot import Snapshot


def search_with_bm25(
    snapshot: Snapshot, queries: np.ndarray, k: int, asked: PassageTable | None, scores: Sequence[Mapping[int, float]]
) -> Neighbors:
    """Of each query the k nearest rows, those that have its words, and more of the nearest: 2k, by their distances.

    ``scores``: of each query the BM25 of up to k rows, by their places in the snapshot.
    """
    width, all_rows = min(2 * k, len(snapshot.keys)), np.arange(len(queries))
    passages = [take_passages(asked, all_rows[[query]]) for query in all_rows]
    near = snapshot.search(queries, width, take_passages(asked, all_rows)).rows.tolist()
    found = []
    for query, hits in enumerate(scores):
        chosen = np.array(list(dict.fromkeys([*near[query][:k], *hits, *near[query]]))[:width])
        own = _search_rows(snapshot, chosen, queries[[query]], passages[query])
        bm25 = [[hits.get(row, 0.0) for row in own.rows[0].tolist()]]
        found.append(replace(own, bm25=np.array(bm25, dtype=np.float32)))
    return of_queries(found)


def _search_rows(snapshot: Snapshot, rows: np.ndarray, query: np.ndarray, passages: Passages | None) -> Neighbors:
    """What a search of the snapshot would say of these rows."""
    own = take_rows(snapshot, rows)
    found = own.search(query, len(rows), passages)
    nearest = found.nearest
    if nearest is not None:
        firsts, own_firsts = (np.cumsum(one.counts) - one.counts for one in (snapshot, own))
        nearest = nearest - own_firsts[found.rows] + firsts[rows[found.rows]]
    whole = {"table": snapshot.rows, "keys": snapshot.keys, "passages": snapshot.passages}
    return replace(found, rows=rows[found.rows], nearest=nearest, **whole)
