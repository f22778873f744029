"""Grouped search: the nearest documents where documents and queries may have several passages each; exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .keys import BLOCK_BYTES, as_float32
from .row_table import places_of

# A distance by products is off by at most (D + 3)(|q|^2 + |x|^2) / 2^24: twice that is to spare.
ROUNDING = 2.0**-23
TELLING = 1e-4  # of a distance: what is less is rounding, and the nearest passage is the one to name


class GroupedNeighbors(NamedTuple):
    """The k nearest documents of Q queries, each ``(Q, k)``, nearest first.

    ``distances``: float32. ``rows``: int64. ``query_passages``: int64, from 0 in each query: the passage that is nearer
    to this document than to documents on average, by most; so not one that all have. ``passages``: int64, which of the
    keys is the document's nearest to it.
    """

    distances: np.ndarray
    rows: np.ndarray
    passages: np.ndarray
    query_passages: np.ndarray


def grouped_search(
    queries: np.ndarray, query_counts: np.ndarray, keys: np.ndarray, counts: np.ndarray, k: int
) -> GroupedNeighbors:
    r"""The k nearest documents of each query, the lower row first of equals.

    Each passage of one document has a nearest one in the other. Of these squared L2 distances let :math:`a_r` be the
    r-th smallest of the u passages of one document, :math:`b_r` of the c passages of the other. Then

    .. math:: d = \sum_{r=1}^{m} \frac{w_r}{2} (a_r + b_r), \quad m = \min(u, c), \quad
        w_r = \frac{1/r}{\sum_{s=1}^{m} 1/s},

    a Chamfer distance in which the r-th best match counts 1/r. The best matches decide; where these are passages that
    all documents share, the next ones do. A document is at 0 from itself, and where one of the two has one passage,
    the nearest one of the other decides.

    ``queries``: float32 ``(U, D)``, one query's passages after the other's, and ``query_counts`` int64 ``(Q,)``.
    ``keys``: float32 or float16 ``(P, D)``, and ``counts`` int64 ``(N,)``. ``k``: from 1 to N.
    """
    none = _Candidates(*np.zeros((2, 0), np.float32), np.zeros(0, np.int64))
    candidates, query_ends = [none] * len(query_counts), np.cumsum(query_counts)
    usual = np.zeros(len(queries))  # the mean distance of each passage from all documents
    starts = np.cumsum(counts) - counts
    width = max(keys.shape[1], query_counts.max(initial=0))  # of a passage, or of what a query compares with it
    for first, last in _document_blocks(counts, width):
        block = as_float32(keys[starts[first] : starts[last - 1] + counts[last - 1]])
        norms = np.maximum.reduceat(_squares(block), starts[first:last] - starts[first])
        nearest = _nearest_by_products(queries, query_counts, block, counts[first:last])
        for query, (of_query, of_documents) in enumerate(nearest):
            part = slice(query_ends[query] - query_counts[query], query_ends[query])
            own = queries[part]
            usual[part] += of_query.sum(1) / len(counts)
            distances = matched_distances(of_query, of_documents, counts[first:last])
            rounding = ROUNDING * (keys.shape[1] + 3) * (_squares(own).max() + norms)
            new = _Candidates(distances - rounding, distances + rounding, np.arange(first, last))
            candidates[query] = _closest(candidates[query], new, k)
    found = []
    for end, count, near in zip(query_ends, query_counts, candidates, strict=True):
        own, documents = queries[end - count : end], (counts[near.rows], starts[near.rows])
        compared = (
            _compare_one(own, keys, *documents)
            if count == 1
            else _compare(own, keys, *documents, usual[end - count : end])
        )
        nearest = np.lexsort((near.rows, compared.distances))[:k]
        columns = [column[nearest] for column in compared]
        found.append(GroupedNeighbors(columns[0][None], near.rows[nearest][None], *(c[None] for c in columns[1:])))
    return join_queries(found, k)


def matched_distances(of_query: np.ndarray, of_documents: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Distances of documents, float32 ``(N,)``, by those of the query's passages ``(u, N)``, and of theirs ``(P,)``."""
    if len(of_query) == 1:  # the same for all, without the sorting
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
    """As ``grouped_search`` of one query, its passages ``(u, D)``, among some ``rows``, ascending, at least k."""
    places = places_of(counts, np.cumsum(counts), rows)
    found = grouped_search(query, np.array([len(query)]), keys[places], counts[rows], k)
    return found._replace(rows=rows[found.rows], passages=places[found.passages])


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
    rows: np.ndarray  # ascending


def _document_blocks(counts: np.ndarray, width: int) -> Iterator[tuple[int, int]]:
    """Ranges of documents, of 64 MiB at most with float32 ``(P, width)``, but for single documents that have more."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        most = ends[first] - counts[first] + BLOCK_BYTES // (4 * width)
        last = max(int(np.searchsorted(ends, most, "right")), first + 1)
        yield first, last
        first = last


def _nearest_by_products(
    queries: np.ndarray, query_counts: np.ndarray, block: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each query what ``matched_distances`` takes, by ``|q|^2 - 2qx + |x|^2``: fast, and off by rounding."""
    starts, squares = np.cumsum(counts) - counts, _squares(block)
    most, start = max(BLOCK_BYTES // (4 * len(block)), 1), 0  # rows of a product
    for batch in _batches(query_counts, most):
        total, firsts = int(batch.sum()), np.cumsum(batch) - batch
        of_query = np.empty((total, len(counts)), dtype=np.float32)
        of_documents = np.full((len(batch), len(block)), np.inf, dtype=np.float32)
        for part in range(0, total, most):  # one query may be longer than a product
            rows = queries[start + part : start + min(part + most, total)]
            distances = (-2 * rows) @ block.T
            distances += _squares(rows)[:, None]
            distances += squares
            of_query[part : part + most] = np.minimum.reduceat(distances, starts, axis=1)
            np.minimum(of_documents, np.minimum.reduceat(distances, firsts, axis=0), out=of_documents)
        start += total
        for first, count, nearest in zip(firsts, batch, of_documents, strict=True):
            yield of_query[first : first + count], nearest


def _batches(query_counts: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """The counts of queries in batches of at most so many passages, one query at least."""
    ends, first = np.cumsum(query_counts), 0
    while first < len(query_counts):
        last = max(int(np.searchsorted(ends, ends[first] - query_counts[first] + most, "right")), first + 1)
        yield query_counts[first:last]
        first = last


def _closest(found: _Candidates, new: _Candidates, k: int) -> _Candidates:
    """Of two sets of candidates those that may be among the k nearest of both."""
    joined = _Candidates(*map(np.concatenate, zip(found, new, strict=True)))
    if len(joined.rows) <= k:
        return joined
    kept = joined.lower <= np.partition(joined.upper, k - 1)[k - 1]
    return _Candidates(*(array[kept] for array in joined))


class _Compared(NamedTuple):
    """Some documents compared with a query by ``sum((q - x)^2)``, each ``(n,)`` as in ``GroupedNeighbors``."""

    distances: np.ndarray
    passages: np.ndarray
    query_passages: np.ndarray


def _compare_one(query: np.ndarray, keys: np.ndarray, counts: np.ndarray, starts: np.ndarray) -> _Compared:
    """Of a query of one passage, ``(1, D)``: all documents at once, since many may be equally near."""
    firsts = np.cumsum(counts) - counts
    places = np.repeat(starts - firsts, counts) + np.arange(counts.sum())
    exact = np.empty(len(places), dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * keys.shape[1]), 1)
    for start in range(0, len(places), step):
        part = slice(start, start + step)
        exact[part] = _squares(query - as_float32(keys[places[part]]))
    order = np.lexsort((exact, np.repeat(np.arange(len(counts)), counts)))[firsts]
    return _Compared(exact[order], places[order], np.zeros(len(counts), dtype=np.int64))


def _compare(
    query: np.ndarray, keys: np.ndarray, counts: np.ndarray, starts: np.ndarray, usual: np.ndarray
) -> _Compared:
    """Of a query of several passages, ``(u, D)``, which are as far as ``usual``, ``(u,)``, from documents."""
    compared = _Compared(np.empty(len(counts), np.float32), *np.empty((2, len(counts)), np.int64))
    for place, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        document = as_float32(keys[start : start + count])
        of_query, of_document, theirs = _nearest_by_differences(query, document)
        compared.distances[place] = matched_distances(of_query[:, None], of_document, counts[[place]])[0]
        nearer = usual - of_query
        best = np.flatnonzero(nearer >= nearer.max() - TELLING * np.abs(usual).max())
        own = best[of_query[best].argmin()]
        compared.passages[place], compared.query_passages[place] = start + theirs[own], own
    return compared


def _nearest_by_differences(query: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distance of each passage of a query from the nearest of a document; the reverse; and which the former is."""
    of_query, theirs = np.empty(len(query), dtype=np.float32), np.empty(len(query), dtype=np.int64)
    of_document = np.full(len(document), np.inf, dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * document.size), 1)
    for start in range(0, len(query), step):
        difference = query[start : start + step, None] - document
        exact = np.einsum("ucd,ucd->uc", difference, difference)
        of_query[start : start + step], theirs[start : start + step] = exact.min(1), exact.argmin(1)
        np.minimum(of_document, exact.min(0), out=of_document)
    return of_query, of_document, theirs


def _squares(vectors: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", vectors, vectors)
