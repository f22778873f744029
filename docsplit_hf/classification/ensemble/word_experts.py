"""The experts that know words alone: "words", of all texts with their soft labels, and "vocabulary", of examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from .expert import Expert
from .logistic_regressions import fit_regressions

if TYPE_CHECKING:
    from collections.abc import Mapping

    import scipy.sparse as sp

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

SMOOTHING = 0.1
SHARPNESS = 5.0  # the words of a text are of norm 1 in TF-IDF; naive Bayes would count each as often as it is there
INVERSE_REGULARIZATION = 20.0
MOST_EXAMPLES = 10_000  # that it learns from: of more, a random sample
CERTAIN = 30.0  # the log odds of a label that all examples have, or none


class Words(Expert):
    """Naive Bayes over the words of all texts with their soft labels."""

    learns_from_documents = True

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        return corpus.words is not None

    def prior(self, lesson: Lesson) -> float:
        return 0.2 if lesson.has_documents else 0.05  # documents show which words go together

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        return {"word_weights": fit_word_weights(lesson.corpus.words, lesson.soft, lesson.weights, lesson.several)}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        return SHARPNESS * np.asarray(asked.words @ learned["word_weights"].T)

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {"word_weights": (sizes.labels, sizes.terms)}


def fit_word_weights(words: sp.csr_matrix, soft: np.ndarray, weights: np.ndarray, several: bool) -> np.ndarray:
    """``log p(word | label)``, float32 ``(C, V)``, by TF-IDF ``(N, V)`` of texts with soft labels, and their weights.

    Of several labels per text, how many times as frequent a word is with the label as without.
    """
    speaking = _log_frequency(words, soft * weights[:, None])
    if several:
        speaking -= _log_frequency(words, (1 - soft) * weights[:, None])
    return speaking.astype(np.float32)


def _log_frequency(words: sp.csr_matrix, counts: np.ndarray) -> np.ndarray:
    frequency = (words.T @ counts).T + SMOOTHING
    return np.log(frequency / frequency.sum(1, keepdims=True))


class Vocabulary(Expert):
    """Logistic regressions on the words of the examples, one for each label, as one does without any encoder."""

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        return corpus.words is not None

    def prior(self, lesson: Lesson) -> float:
        return 0.08  # few examples have few of the words; where there are more, folds show what it is worth

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        return {"vocabulary": fit_vocabulary(lesson.corpus.words[lesson.rows], lesson.targets, lesson.several)}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        return vocabulary_scores(asked.words, learned["vocabulary"])

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {"vocabulary": (sizes.labels, sizes.terms + 1)}


def fit_vocabulary(words: sp.csr_matrix, targets: np.ndarray, several: bool) -> np.ndarray:
    """Weights of words ``(n, V)`` and a bias for each label, float32 ``(C, V + 1)``, by ``targets`` ``(n, C)``."""
    import scipy.sparse as sp

    kept = np.random.default_rng(0).permutation(len(targets))[:MOST_EXAMPLES]
    words, targets = words[kept], targets[kept] > 0
    seen = np.unique(words.indices)  # a word that no example has gets no weight
    ones = np.ones((len(targets), 1), np.float32)  # for the bias
    is_always, is_never = targets.all(0), ~targets.any(0)
    asked = np.flatnonzero(~is_always & ~is_never)
    features = sp.csr_array(sp.hstack([words[:, seen], ones]))
    weights = fit_regressions(features, targets[:, asked], INVERSE_REGULARIZATION)
    found = np.zeros((targets.shape[1], words.shape[1] + 1), np.float32)
    found[np.ix_(asked, seen)] = weights[:, :-1]
    found[asked, -1] = weights[:, -1]
    found[is_always, -1] = CERTAIN
    found[is_never, -1] = -CERTAIN
    return found


def vocabulary_scores(words: sp.csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Log odds ``(N, C)``."""
    return np.asarray(words @ weights[:, :-1].T) + weights[:, -1]


def word_counts(scores: np.ndarray, several: bool) -> np.ndarray:
    """The probabilities of log odds ``(N, C)``, which add up to 1 where a text has one label."""
    probabilities = expit(scores.astype(np.float64))
    return probabilities if several else probabilities / np.maximum(probabilities.sum(1, keepdims=True), 1e-300)
