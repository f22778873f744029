"""Exact search where documents and queries may have several passages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .keys import BLOCK_BYTES, as_float32
from .passages import passage_positions

# The rounding error of |q|^2 - 2qx + |x|^2 is at most (D + 3)(|q|^2 + |x|^2) / 2^24; this factor is twice that.
ROUNDING = 2.0**-23
# Relative to a distance: passages whose distinctiveness differs by less are equal, and the nearest is shown.
DISTINCTIVENESS_TOLERANCE = 1e-4


class GroupedNeighbors(NamedTuple):
    """The k nearest documents of Q queries, nearest first; each array is ``(Q, k)``.

    ``distances``: float32. ``rows``: int64. ``query_passages``: int64, counted from 0 in each query: the most
    distinctive passage, which is nearer to this document than to the average document by the largest margin.
    ``passages``: int64, the nearest passage of the document, as its position in the keys.
    """

    distances: np.ndarray
    rows: np.ndarray
    passages: np.ndarray | None  # None if neither rows nor queries have several
    query_passages: np.ndarray | None


def grouped_search(
    queries: np.ndarray, query_counts: np.ndarray, keys: np.ndarray, counts: np.ndarray, k: int
) -> GroupedNeighbors:
    r"""Find the k nearest documents of each query; lower rows first if distances are equal.

    Each passage of one document has a nearest passage in the other. Let :math:`a_r` be the r-th smallest of these
    squared L2 distances for the u passages of one document, and :math:`b_r` for the c passages of the other. Then

    .. math:: d = \sum_{r=1}^{m} \frac{w_r}{2} (a_r + b_r), \quad m = \min(u, c), \quad
        w_r = \frac{1/r}{\sum_{s=1}^{m} 1/s},

    a Chamfer distance in which the r-th best match has weight 1/r. The best matches dominate; if they are passages
    that all documents share, the next matches decide. The distance of a document to itself is 0. If one document has
    one passage, the distance is that of the nearest passage of the other.

    ``queries``: float32 ``(U, D)``, query by query, with ``query_counts`` int64 ``(Q,)``. ``keys``: float32 or float16
    ``(P, D)``, with ``counts`` int64 ``(N,)``. ``k``: from 1 to N.
    """
    no_distances = np.zeros(0, np.float32)
    candidates = [_Candidates(no_distances, no_distances, np.zeros(0, np.int64))] * len(query_counts)
    query_ends = np.cumsum(query_counts)
    mean_distances = np.zeros(len(queries))  # of each passage to all documents
    starts = np.cumsum(counts) - counts
    width = max(keys.shape[1], query_counts.max(initial=0))  # of a key, or of its distances to a query
    for first, last in _ranges(counts, BLOCK_BYTES // (4 * width)):
        block = as_float32(keys[starts[first] : starts[last - 1] + counts[last - 1]])
        norms = np.maximum.reduceat(_squares(block), starts[first:last] - starts[first])
        nearest = _nearest_by_products(queries, query_counts, block, counts[first:last])
        for query, (of_query, of_documents) in enumerate(nearest):
            part = slice(query_ends[query] - query_counts[query], query_ends[query])
            own = queries[part]
            mean_distances[part] += of_query.sum(1) / len(counts)
            distances = matched_distances(of_query, of_documents, counts[first:last])
            rounding = ROUNDING * (keys.shape[1] + 3) * (_squares(own).max() + norms)
            new = _Candidates(distances - rounding, distances + rounding, np.arange(first, last))
            candidates[query] = _closest(candidates[query], new, k)
    found = []
    for end, count, near in zip(query_ends, query_counts, candidates, strict=True):
        query = queries[end - count : end]
        near_counts = counts[near.rows]
        near_starts = starts[near.rows]
        if count == 1:
            compared = _compare_one(query, keys, near.rows, near_counts, near_starts)
        else:
            compared = _compare(query, keys, near.rows, near_counts, near_starts, mean_distances[end - count : end])
        nearest = np.lexsort((near.rows, compared.distances))[:k]
        found.append(GroupedNeighbors(*(values[nearest][None] for values in compared)))
    return join_queries(found, k)


def matched_distances(of_query: np.ndarray, of_documents: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Compute distances of documents, float32 ``(N,)``.

    ``of_query``: of each query passage to its nearest passage in each document, ``(u, N)``. ``of_documents``: of each
    document passage to its nearest query passage, ``(P,)``. ``counts``: passages of the documents.
    """
    if len(of_query) == 1:  # the result is the same without sorting
        return of_query[0]
    matched = np.minimum(len(of_query), counts)
    weights = 1 / np.arange(1, len(of_query) + 1)
    sums = np.cumsum(weights)[matched - 1]
    ranked = np.sort(of_query, axis=0)
    ranked[np.arange(len(of_query))[:, None] >= matched] = 0
    total = weights @ ranked
    owners = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((of_documents, owners))
    rank = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    counted = np.flatnonzero(rank < matched[owners])
    values = weights[rank[counted]] * of_documents[order[counted]]
    total += np.bincount(owners[counted], values, len(counts))
    return (total / (2 * sums)).astype(np.float32)


def grouped_among(
    query: np.ndarray, keys: np.ndarray, counts: np.ndarray, rows: np.ndarray, k: int
) -> GroupedNeighbors:
    """Search for one query, its passages ``(u, D)``, among at least k ``rows``, ascending."""
    positions = passage_positions(counts, np.cumsum(counts), rows)
    found = grouped_search(query, np.array([len(query)]), keys[positions], counts[rows], k)
    return found._replace(rows=rows[found.rows], passages=positions[found.passages])


def join_queries(parts: list[GroupedNeighbors], k: int) -> GroupedNeighbors:
    """Stack the results of queries."""
    no_rows = np.zeros((0, k), dtype=np.int64)
    return GroupedNeighbors(
        distances=np.vstack([no_rows.astype(np.float32), *(part.distances for part in parts)]),
        rows=np.vstack([no_rows, *(part.rows for part in parts)]),
        passages=np.vstack([no_rows, *(part.passages for part in parts)]),
        query_passages=np.vstack([no_rows, *(part.query_passages for part in parts)]),
    )


class _Candidates(NamedTuple):
    """Documents that may be among the k nearest of a query, since distances are rounded."""

    lower: np.ndarray  # lower bounds of the distances
    upper: np.ndarray  # upper bounds of the distances
    rows: np.ndarray  # ascending


def _ranges(counts: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts with at most ``most`` passages in all; a text with more is its own range."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        last = max(int(np.searchsorted(ends, ends[first] - counts[first] + most, "right")), first + 1)
        yield first, last
        first = last


def _nearest_by_products(
    queries: np.ndarray, query_counts: np.ndarray, block: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the arguments of ``matched_distances`` for each query, by ``|q|^2 - 2qx + |x|^2``: fast, but rounded."""
    starts = np.cumsum(counts) - counts
    squares = _squares(block)
    most = max(BLOCK_BYTES // (4 * len(block)), 1)  # rows of a product
    start = 0
    for first_query, query_after in _ranges(query_counts, most):
        batch = query_counts[first_query:query_after]
        total = int(batch.sum())
        firsts = np.cumsum(batch) - batch
        of_query = np.empty((total, len(counts)), dtype=np.float32)
        of_documents = np.full((len(batch), len(block)), np.inf, dtype=np.float32)
        for part in range(0, total, most):  # a single query may have more passages than ``most``
            rows = queries[start + part : start + min(part + most, total)]
            distances = (-2 * rows) @ block.T
            distances += _squares(rows)[:, None]
            distances += squares
            of_query[part : part + most] = np.minimum.reduceat(distances, starts, axis=1)
            np.minimum(of_documents, np.minimum.reduceat(distances, firsts, axis=0), out=of_documents)
        start += total
        for first, count, nearest in zip(firsts, batch, of_documents, strict=True):
            yield of_query[first : first + count], nearest


def _closest(found: _Candidates, new: _Candidates, k: int) -> _Candidates:
    """Join two sets of candidates; drop those that cannot be among the k nearest."""
    joined = _Candidates(
        lower=np.concatenate([found.lower, new.lower]),
        upper=np.concatenate([found.upper, new.upper]),
        rows=np.concatenate([found.rows, new.rows]),
    )
    if len(joined.rows) <= k:
        return joined
    kept = joined.lower <= np.partition(joined.upper, k - 1)[k - 1]
    return _Candidates(joined.lower[kept], joined.upper[kept], joined.rows[kept])


def _compare_one(
    query: np.ndarray, keys: np.ndarray, rows: np.ndarray, counts: np.ndarray, starts: np.ndarray
) -> GroupedNeighbors:
    """Compare a query of one passage, ``(1, D)``, with all candidates at once, since many may be equally near."""
    firsts = np.cumsum(counts) - counts
    positions = np.repeat(starts - firsts, counts) + np.arange(counts.sum())
    exact = np.empty(len(positions), dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * keys.shape[1]), 1)
    for start in range(0, len(positions), step):
        part = slice(start, start + step)
        exact[part] = _squares(query - as_float32(keys[positions[part]]))
    order = np.lexsort((exact, np.repeat(np.arange(len(counts)), counts)))[firsts]
    return GroupedNeighbors(exact[order], rows, positions[order], np.zeros(len(counts), dtype=np.int64))


def _compare(
    query: np.ndarray,
    keys: np.ndarray,
    rows: np.ndarray,
    counts: np.ndarray,
    starts: np.ndarray,
    mean_distances: np.ndarray,
) -> GroupedNeighbors:
    """Compare a query of several passages, ``(u, D)``; ``mean_distances``: of these to documents, ``(u,)``."""
    compared = GroupedNeighbors(
        distances=np.empty(len(counts), np.float32),
        rows=rows,
        passages=np.empty(len(counts), np.int64),
        query_passages=np.empty(len(counts), np.int64),
    )
    for place, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        document = as_float32(keys[start : start + count])
        of_query, of_document, nearest = _nearest_by_differences(query, document)
        compared.distances[place] = matched_distances(of_query[:, None], of_document, counts[[place]])[0]
        nearer = mean_distances - of_query
        best = np.flatnonzero(nearer >= nearer.max() - DISTINCTIVENESS_TOLERANCE * np.abs(mean_distances).max())
        query_passage = best[of_query[best].argmin()]
        compared.passages[place] = start + nearest[query_passage]
        compared.query_passages[place] = query_passage
    return compared


def _nearest_by_differences(query: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distances of query passages to their nearest document passages, the reverse, and those passages."""
    of_query = np.empty(len(query), dtype=np.float32)
    nearest = np.empty(len(query), dtype=np.int64)
    of_document = np.full(len(document), np.inf, dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * document.size), 1)
    for start in range(0, len(query), step):
        difference = query[start : start + step, None] - document
        exact = np.einsum("ucd,ucd->uc", difference, difference)
        of_query[start : start + step] = exact.min(1)
        nearest[start : start + step] = exact.argmin(1)
        np.minimum(of_document, exact.min(0), out=of_document)
    return of_query, of_document, nearest


def _squares(vectors: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", vectors, vectors)
