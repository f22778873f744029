"""The expert "topics": how near a text is to the middle of all that a label's texts are about (soft k-means)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from .class_proportions import smoothed
from .document_vectors import unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

CONCENTRATION, STEPS = 30.0, 10


class Topics:
    """Soft k-means."""

    learns_from_documents = True

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        """Where each text has one label."""
        return not several

    def prior(self, lesson: Lesson) -> float:
        """More than any other's."""
        return 0.35 if lesson.has_documents else 0.45

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
    vectors: np.ndarray, rows: np.ndarray, soft: np.ndarray, weights: np.ndarray, proportions: np.ndarray | None = None
) -> np.ndarray:
    """The soft labels ``(N, C)`` of texts that are grouped by topic.

    Expectation maximization of a mixture of von Mises-Fisher distributions over the whitened vectors ``(N, D)`` of all
    texts, which count ``weights`` ``(N,)``. It begins with ``soft``; the texts ``rows`` keep theirs. The priors are the
    ``proportions`` of the labels ``(C,)``, or, if None, estimated with the rest.
    """
    given, prior = soft[rows], 0.0 if proportions is None else np.log(proportions)
    for _ in range(STEPS):
        soft = softmax(topic_scores(vectors, centers_of(vectors, soft, weights)) + prior, axis=1)
        soft[rows] = given
        if proportions is None:
            prior = np.log(smoothed(soft.mean(0, dtype=np.float64)))
    return soft.astype(np.float32, copy=False)


def topic_scores(vectors: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)``: 30 times the cosine of a text and a center."""
    return CONCENTRATION * (vectors @ centers.T)


def centers_of(vectors: np.ndarray, soft: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The middle of the texts of each label, ``(C, D)``, of norm 1."""
    # Not soft.T @ vectors: with two threads on a busy machine OpenBLAS takes six times as long for it.
    return unit((vectors.T @ (soft * weights[:, None])).T)
