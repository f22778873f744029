"""Grouped search: the nearest documents where documents and queries may have several passages each; exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .index import BLOCK_BYTES
from .passage_table import places_of

# Measured on citations between papers, beside the nearest pair, more pairs, a soft minimum and the documents' means.
BEST_PAIRS = 3
# A distance by products is off by at most (D + 3)(|q|^2 + |x|^2) / 2^24: twice that is to spare.
ROUNDING = 2.0**-23


class GroupedNeighbors(NamedTuple):
    """The k nearest documents of Q queries, each ``(Q, k)``, nearest first.

    ``distances``: float32. ``rows``: int64. ``passages``: int64, which of the keys is the nearest of the document's.
    ``query_passages``: int64, which of the query's own passages it is nearest to, from 0 in each query.
    """

    distances: np.ndarray
    rows: np.ndarray
    passages: np.ndarray
    query_passages: np.ndarray


def grouped_search(
    queries: np.ndarray,
    query_counts: np.ndarray,
    keys: np.ndarray,
    counts: np.ndarray,
    k: int,
    best: int = BEST_PAIRS,
) -> GroupedNeighbors:
    """The k nearest documents of each query, the lower row first of equals.

    The distance of two documents of u and c passages is the mean of the ``min(best, u, c)`` smallest squared L2
    distances between a passage of one and a passage of the other: so a document is at 0 from itself.

    ``queries``: float32 ``(U, D)``, one query's passages after the other's, and ``query_counts`` int64 ``(Q,)``.
    ``keys``: float32 or float16 ``(P, D)``, and ``counts`` int64 ``(N,)``. ``k``: from 1 to N.
    """
    ends, query_starts = np.cumsum(counts), np.cumsum(query_counts) - query_counts
    candidates = [_Candidates(*np.zeros((3, 0), np.float32), np.zeros(0, np.int64))] * len(query_counts)
    for first, last in _document_blocks(counts, keys.shape[1]):
        block = keys[ends[first] - counts[first] : ends[last - 1]].astype(np.float32, copy=False)
        norms = np.maximum.reduceat(_squares(block), np.cumsum(counts[first:last]) - counts[first:last])
        for query, smallest in _smallest_per_passage(queries, query_counts, block, best):
            start = query_starts[query]
            own = queries[start : start + query_counts[query]]
            new = _make_candidates(smallest, counts[first:last], own, norms, first)
            candidates[query] = _closest(candidates[query], new, k)
    found = [
        _rank(queries[start : start + count], keys, counts, ends, near, k, best)
        for start, count, near in zip(query_starts, query_counts, candidates, strict=True)
    ]
    return join_queries(found, k)


def grouped_among(
    query: np.ndarray, keys: np.ndarray, counts: np.ndarray, rows: np.ndarray, k: int
) -> GroupedNeighbors:
    """As ``grouped_search`` of one query, its passages ``(u, D)``, among some ``rows``, ascending, at least k."""
    places = places_of(counts, np.cumsum(counts), rows)
    found = grouped_search(query, np.array([len(query)]), keys[places], counts[rows], k)
    return found._replace(rows=rows[found.rows], passages=places[found.passages])


def nearest_of(parts: list[GroupedNeighbors], k: int) -> GroupedNeighbors:
    """The k nearest of several answers to the same queries, whose rows differ."""
    joined = GroupedNeighbors(*map(np.hstack, zip(*parts, strict=True)))
    order = np.lexsort((joined.rows, joined.distances))[:, :k]
    return GroupedNeighbors(*(np.take_along_axis(array, order, 1) for array in joined))


def join_queries(parts: list[GroupedNeighbors], k: int) -> GroupedNeighbors:
    """The answers to one query after the other."""
    none = np.zeros((0, k), dtype=np.int64)
    return GroupedNeighbors(
        *map(np.vstack, zip(GroupedNeighbors(none.astype(np.float32), none, none, none), *parts, strict=True))
    )


class _Candidates(NamedTuple):
    """Documents that may be among the k nearest of a query, as far as rounding allows to tell."""

    lower: np.ndarray  # the distance is at least that
    upper: np.ndarray  # and at most that
    limits: np.ndarray  # the pairs that the distance is the mean of are no farther, in products
    rows: np.ndarray  # ascending


def _document_blocks(counts: np.ndarray, dimension: int) -> Iterator[tuple[int, int]]:
    """Ranges of documents, of 64 MiB of keys in float32 at most, but for single documents that have more."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        most = ends[first] - counts[first] + BLOCK_BYTES // (4 * dimension)
        last = max(int(np.searchsorted(ends, most, "right")), first + 1)
        yield first, last
        first = last


def _smallest_per_passage(
    queries: np.ndarray, query_counts: np.ndarray, block: np.ndarray, best: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Each query, and of each passage of a block its ``best`` smallest distances from the query's, ``(best, p)``.

    The array is the caller's until the next step, and infinite where the query has fewer passages.
    """
    ends, query = np.cumsum(query_counts), 0
    step = max(BLOCK_BYTES // (4 * len(block)), 1)
    smallest = np.full((best, len(block)), np.inf, dtype=np.float32)
    lower = np.empty(len(block), dtype=np.float32)
    for start in range(0, len(queries), step):
        for passage, distances in enumerate(_by_products(queries[start : start + step], block), start + 1):
            for level in smallest:
                np.minimum(level, distances, out=lower)
                np.maximum(level, distances, out=distances)
                level[:] = lower
            if passage == ends[query]:
                yield query, smallest
                query += 1
                smallest.fill(np.inf)


def _make_candidates(
    smallest: np.ndarray, counts: np.ndarray, query: np.ndarray, norms: np.ndarray, first: int
) -> _Candidates:
    """The documents of a block, from ``_smallest_per_passage``; ``norms``: the largest square of each."""
    best, levels, starts = len(smallest), [], np.cumsum(counts) - counts
    for _ in range(best):
        # The smallest of each document is taken out, once, and the next one of its passage comes up.
        levels.append(np.minimum.reduceat(smallest[0], starts))
        places = np.flatnonzero(smallest[0] == np.repeat(levels[-1], counts))
        places = places[np.searchsorted(places, starts)]
        smallest[:-1, places] = smallest[1:, places]
        smallest[-1, places] = np.inf
    used = np.minimum(min(best, len(query)), counts)
    level = np.arange(best)[:, None]
    distances = np.where(level < used, levels, 0).sum(0) / used
    limits = np.take_along_axis(np.stack(levels), used[None] - 1, 0)[0]
    rounding = ROUNDING * (query.shape[1] + 3) * (_squares(query).max() + norms)
    rows = np.arange(first, first + len(counts))
    return _Candidates(distances - rounding, distances + rounding, limits + rounding, rows)


def _closest(found: _Candidates, new: _Candidates, k: int) -> _Candidates:
    """Of two sets of candidates those that may be among the k nearest of both."""
    joined = _Candidates(*map(np.concatenate, zip(found, new, strict=True)))
    if len(joined.rows) <= k:
        return joined
    kept = joined.lower <= np.partition(joined.upper, k - 1)[k - 1]
    return _Candidates(*(array[kept] for array in joined))


def _rank(
    query: np.ndarray,
    keys: np.ndarray,
    counts: np.ndarray,
    ends: np.ndarray,
    candidates: _Candidates,
    k: int,
    best: int,
) -> GroupedNeighbors:
    """The k nearest of the candidates, by distances ``sum((q - x)^2)`` of the pairs that come into question."""
    counts_here = counts[candidates.rows]
    pairs = []  # of each: the document among the candidates, its passage, the query's passage
    for first, last in _document_blocks(counts_here, keys.shape[1]):
        places = places_of(counts, ends, candidates.rows[first:last])
        owners = np.repeat(np.arange(first, last), counts_here[first:last])
        block, limits = keys[places].astype(np.float32, copy=False), candidates.limits[owners]
        step = max(BLOCK_BYTES // (4 * len(block)), 1)
        for start in range(0, len(query), step):
            own, theirs = np.nonzero(_by_products(query[start : start + step], block) <= limits)
            pairs.append((owners[theirs], places[theirs], own + start))
    owners, places, own = map(np.concatenate, zip(*pairs, strict=True))
    exact = np.empty(len(owners), dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * keys.shape[1]), 1)
    for start in range(0, len(exact), step):
        part = slice(start, start + step)
        exact[part] = _squares(keys[places[part]].astype(np.float32, copy=False) - query[own[part]])

    order = np.lexsort((own, places, exact, owners))
    starts = np.searchsorted(owners[order], np.arange(len(counts_here)))
    used = np.minimum(min(best, len(query)), counts_here)
    level = np.arange(best)
    smallest = exact[order][np.minimum(starts[:, None] + level, len(order) - 1)]
    distances = (np.where(level < used[:, None], smallest, 0).sum(1) / used).astype(np.float32)
    nearest = np.lexsort((candidates.rows, distances))[:k]
    pair = order[starts[nearest]]
    columns = distances[nearest], candidates.rows[nearest], places[pair], own[pair]
    return GroupedNeighbors(*(column[None] for column in columns))


def _by_products(queries: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Squared L2 distances as ``|q|^2 - 2qx + |x|^2``, float32 ``(u, p)``: fast, and off by rounding."""
    distances = (-2 * queries) @ block.T
    distances += _squares(queries)[:, None]
    distances += _squares(block)
    return distances


def _squares(vectors: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", vectors, vectors)
