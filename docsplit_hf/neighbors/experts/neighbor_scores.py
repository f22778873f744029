"""The expert "neighbors": the labels, soft where nobody gave one, of the nearest of all texts."""

from __future__ import annotations

import numpy as np

from ..store.duplicates import EQUAL
from ..store.search.index import exact_search

NEIGHBORS, POWER = 30, 4  # the weight of a neighbor is its cosine to this power
LEAST_SHARE = 1e-3


def neighbor_shares(
    queries: np.ndarray, vectors: np.ndarray, soft: np.ndarray, without_equal: bool = False
) -> np.ndarray:
    """The share of each label among the 30 nearest, ``(Q, C)``; ``vectors`` ``(N, D)`` of norm 1, labels ``(N, C)``.

    ``without_equal``: queries that are among the vectors are not their own neighbors, nor are copies of them.
    """
    shares = np.empty((len(queries), soft.shape[1]), np.float64)
    for start in range(0, len(queries), 1024):
        part = slice(start, start + 1024)
        distances, rows = exact_search(queries[part], vectors, min(NEIGHBORS + 1, len(vectors)))
        weights = np.maximum(1 - distances.astype(np.float64) / 2, LEAST_SHARE) ** POWER  # |a - b|^2 = 2 - 2 cos
        others = distances > EQUAL if without_equal else np.ones(rows.shape, bool)
        weights *= others & (np.cumsum(others, axis=1) <= NEIGHBORS)
        weights /= np.maximum(weights.sum(1, keepdims=True), LEAST_SHARE**POWER)  # all may be copies
        shares[part] = np.einsum("qk,qkc->qc", weights, soft[rows])
    return shares


def neighbor_scores(shares: np.ndarray, several: bool) -> np.ndarray:
    """Logits of shares; log odds where texts have several labels."""
    if several:
        kept = np.clip(shares, 10 * LEAST_SHARE, 1 - 10 * LEAST_SHARE)
        return np.log(kept / (1 - kept))
    return np.log(shares + LEAST_SHARE)
