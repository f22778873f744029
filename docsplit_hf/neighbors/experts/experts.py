"""The experts by name: what they learn together, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .expert import Asked, Expert, Lesson
from .linear_probe import Classifier
from .soft_labels import spread_labels
from .topics import Topics, fit_topics
from .votes import Neighbors
from .word_weights import Words

if TYPE_CHECKING:
    from .corpus import Corpus

EXPERTS: dict[str, Expert] = {
    "classifier": Classifier(),
    "words": Words(),
    "neighbors": Neighbors(),
    "topics": Topics(),
}
EXAMPLE_WEIGHT = 3.0  # of a text with a label, where one without counts 1
SOFT = "soft"  # (N, C): the labels that the texts of the corpus vote with


def prior_weights(experts: Sequence[str], with_documents: bool) -> np.ndarray:
    """The proportions of some of the experts before any label is seen, which add up to 1."""
    chosen = [EXPERTS[name] for name in experts]
    weights = np.array([expert.prior if with_documents else expert.prior_alone for expert in chosen])
    return weights / weights.sum()


def fit_all(
    corpus: Corpus, rows: np.ndarray, targets: np.ndarray, several: bool, experts: Sequence[str], has_head: bool
) -> dict[str, np.ndarray]:
    """What experts learn from the examples ``rows`` with labels ``targets`` ``(n, C)``; all other texts have none."""
    weights = np.ones(len(corpus.vectors), np.float32)
    weights[rows] = EXAMPLE_WEIGHT
    soft = spread = spread_labels(corpus.graph, rows, targets, several)
    centers = np.zeros((targets.shape[1], 0), np.float32)
    if not several:
        centers, soft = fit_topics(corpus.whitened, rows, spread, weights)
    lesson = Lesson(corpus, rows, targets, several, has_head, weights, soft, centers)
    learned = {SOFT: spread}
    for name in experts:
        learned |= EXPERTS[name].fit(lesson)
    return learned


def ask_all(learned: Mapping[str, np.ndarray], experts: Sequence[str], asked: Asked) -> np.ndarray:
    """The logits of texts by each of the experts, float64 ``(E, N, C)``."""
    return np.stack([np.asarray(EXPERTS[name].score(learned, asked), dtype=np.float64) for name in experts])
