"""The expert "topics": how near a text is to the middle of all that a label's texts are about (soft k-means)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_softmax, softmax

from .class_proportions import smoothed
from .document_vectors import unit
from .log_linear_pool import spread_of_scores
from .soft_labels import spread_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

CONCENTRATION, STEPS = 30.0, 10
EXAMPLE_WEIGHTS = 3.0, 10.0  # what a text with a label counts, where one without counts 1: folds choose
MOST_WEIGHED = 20_000  # texts for which they do: of more, a few examples of either weight are next to nothing
EVIDENCE = 3.0  # the log likelihood that something else than the default must gain in folds: a Bayes factor of 20


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


def choose_example_weight(
    corpus: Corpus, rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, proportions: np.ndarray | None
) -> float:
    """What an example counts beside a document: more where topics then find held-out examples better.

    Piles of which one label has most texts draw the topics of the others to it.
    """
    scores = np.zeros((len(EXAMPLE_WEIGHTS), *targets.shape))
    for fold in range(int(folds.max()) + 1):
        is_asked = folds == fold
        learned, asked = rows[~is_asked], rows[is_asked]
        spread = spread_labels(corpus.graph, learned, targets[~is_asked], False)
        for i, example_weight in enumerate(EXAMPLE_WEIGHTS):
            weights = np.ones(len(corpus.whitened), np.float32)
            weights[learned] = example_weight
            soft = fit_topics(corpus.whitened, learned, spread, weights, proportions)
            scores[i, is_asked] = topic_scores(corpus.whitened[asked], centers_of(corpus.whitened, soft, weights))
    scores, held_out = scores[:, folds >= 0], targets[folds >= 0]
    scores /= spread_of_scores(scores, False)[:, None, None]
    likelihoods = (log_softmax(scores, axis=2) * held_out).sum((1, 2))
    return EXAMPLE_WEIGHTS[int(likelihoods[1] > likelihoods[0] + EVIDENCE)]


def topic_scores(vectors: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)``: 30 times the cosine of a text and a center."""
    return CONCENTRATION * (vectors @ centers.T)


def centers_of(vectors: np.ndarray, soft: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The middle of the texts of each label, ``(C, D)``, of norm 1."""
    # Not soft.T @ vectors: with two threads on a busy machine OpenBLAS takes six times as long for it.
    return unit((vectors.T @ (soft * weights[:, None])).T)
