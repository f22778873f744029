"""Hybrid search: the distance of embeddings and that of words as one, so that neighbors are near by both."""

from __future__ import annotations

import numpy as np


def hybrid_distances(distances: np.ndarray, bm25: np.ndarray, weight: float) -> np.ndarray:
    """A squared L2 distance and a BM25 score as one distance, float32 ``(Q, k)``::

        h_j = d_j + weight (1 - s_j / max_i s_i)

    The convex combination of Bruch et al. 2023 ("An Analysis of Fusion Functions for Hybrid Retrieval", section 4),
    which learns its one number from few examples, and of which they find that it is better than reciprocal rank fusion.
    Here scores are distances, and only BM25 is normalized, by its highest: the temperature of the neighbors takes care
    of the other. A row that no word found has the score 0; where none has any, all distances grow alike.
    """
    best = bm25.max(axis=1, keepdims=True, initial=0)
    return distances + np.float32(weight) * (1 - bm25 / np.where(best > 0, best, 1)).astype(np.float32)


def nearest_by_both(found: dict[str, np.ndarray], weight: float, k: int) -> dict[str, np.ndarray]:
    """Of what ``Neighbors.arrays`` gives the k nearest by the hybrid distance, which is their distance from then on."""
    found = found | {"distances": hybrid_distances(found["distances"], found["bm25"], weight)}
    places = np.argsort(found["distances"], axis=1, kind="stable")[:, :k]
    rows = np.arange(len(places))[:, None]
    return {name: array[rows, places] for name, array in found.items()}
