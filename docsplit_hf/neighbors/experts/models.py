"""What the experts learn from examples and documents, and what they say of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .linear_probe import fit_probe
from .soft_labels import spread_labels
from .topics import fit_topics, topic_scores
from .votes import neighbor_scores
from .word_weights import fit_word_weights, word_scores

if TYPE_CHECKING:
    import scipy.sparse as sp

    from .corpus import Corpus

EXPERTS = ("classifier", "words", "neighbors", "topics")
EXAMPLE_WEIGHT = 3.0  # of a text with a label, where one without counts 1


class Models(NamedTuple):
    """What was learned. None, or no columns: there is no such expert."""

    probe: np.ndarray  # (C, D + 1): weights, and the bias last; (C, 0) where a trained classifier speaks
    word_weights: np.ndarray  # (C, V)
    centers: np.ndarray  # (C, D)
    soft: np.ndarray  # (N, C): the labels of the corpus, soft but for its examples


def fit_models(
    corpus: Corpus, rows: np.ndarray, targets: np.ndarray, several: bool, experts: list[str], has_head: bool
) -> Models:
    """Learn from the examples ``rows`` of the corpus with labels ``targets`` ``(n, C)``; all others have none."""
    weights = np.ones(len(corpus.vectors), np.float32)
    weights[rows] = EXAMPLE_WEIGHT
    soft = spread = spread_labels(corpus.graph, rows, targets, several)
    labels = targets.shape[1]
    probe, words, centers = (np.zeros((labels, 0), np.float32) for _ in range(3))
    if "classifier" in experts and not has_head:
        probe = np.column_stack(fit_probe(corpus.vectors[rows], targets, several))
    if not several:
        centers, soft = fit_topics(corpus.whitened, rows, spread, weights)  # for the words too
    if "words" in experts and corpus.words is not None:
        words = fit_word_weights(corpus.words, soft, weights, several)
    return Models(probe, words, centers, spread)


def all_scores(
    models: Models,
    experts: list[str],
    several: bool,
    vectors: np.ndarray,
    whitened: np.ndarray,
    words: sp.csr_matrix | None,
    shares: np.ndarray,
    logits: np.ndarray | None,
) -> np.ndarray:
    """The logits of texts by each of the experts, ``(E, N, C)``.

    ``shares`` are those of the neighbors, ``(N, C)``; ``logits`` those of a trained classifier, which is the expert
    where no probe was fitted.
    """
    has_probe = models.probe.shape[1] > 0
    if "classifier" in experts and not has_probe and logits is None:
        raise ValueError("The experts were fitted beside a trained classifier, and this encoder is none: fit() again.")
    says = {
        "classifier": lambda: vectors @ models.probe[:, :-1].T + models.probe[:, -1] if has_probe else logits,
        "words": lambda: word_scores(words, models.word_weights),
        "neighbors": lambda: neighbor_scores(shares, several),
        "topics": lambda: topic_scores(whitened, models.centers),
    }
    return np.stack([np.asarray(says[name](), dtype=np.float64) for name in experts])
