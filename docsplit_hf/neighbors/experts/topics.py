"""The expert "topics": how near a text is to the middle of all that a label's texts are about (soft k-means)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from .document_vectors import unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

CONCENTRATION, STEPS = 30.0, 5


class Topics:
    """Soft k-means."""

    prior, prior_alone = 0.35, 0.45

    def can_learn(self, corpus: Corpus, several: bool) -> bool:
        """Where each text has one label."""
        return not several

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        """The centers, which were found when labels were made soft."""
        return {"centers": lesson.centers}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        """Of how near texts are to the centers."""
        return topic_scores(asked.whitened, learned["centers"])

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """A center for each label."""
        return {"centers": (sizes.labels, sizes.dimensions)}


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
