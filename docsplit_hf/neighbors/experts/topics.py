"""The expert "topics": how near a text is to the middle of all that a label's texts are about (soft k-means)."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from .document_vectors import unit

CONCENTRATION, STEPS = 30.0, 5


def fit_topics(
    vectors: np.ndarray, rows: np.ndarray, soft: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The center of each label, ``(C, D)`` of norm 1, and the soft labels ``(N, C)`` that go with them.

    Expectation maximization of a mixture of von Mises-Fisher distributions with equal priors, over the whitened vectors
    ``(N, D)`` of all texts, which count ``weights`` ``(N,)``. It begins with ``soft``; the texts ``rows`` keep theirs.
    """
    given = soft[rows]
    for _ in range(STEPS):
        centers = _centers(vectors, soft, weights)
        soft = softmax(topic_scores(vectors, centers), axis=1)
        soft[rows] = given
    return _centers(vectors, soft, weights), soft


def topic_scores(vectors: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)``: 30 times the cosine of a text and a center."""
    return CONCENTRATION * (vectors @ centers.T)


def _centers(vectors: np.ndarray, soft: np.ndarray, weights: np.ndarray) -> np.ndarray:
    # Not soft.T @ vectors: with two threads on a busy machine OpenBLAS takes six times as long for it.
    return unit((vectors.T @ (soft * weights[:, None])).T)
