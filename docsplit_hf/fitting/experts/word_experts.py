"""Experts on words: naive Bayes over all texts with soft labels, and logistic regressions on the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .expert import Expert, Features, TrainingData
from .log_linear_pool import expit
from .saved_types import REGRESSION_WEIGHTS, Array, Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    import scipy.sparse as sp

    from .text_vectors import WordRows

COUNT_SMOOTHING = 0.1
NAIVE_BAYES_SHARPNESS = 5.0  # scale of the logits: TF-IDF has norm 1, word counts of naive Bayes would be larger
WORD_INVERSE_REGULARIZATION = 20.0
MAX_REGRESSION_EXAMPLES = 10_000  # with more, a random sample is used
LOG_ODDS_OF_CONSTANT_LABEL = 30.0  # of a label that all examples have; minus 30 if no example has it


class NaiveBayes(Expert):
    """Naive Bayes over the words of all texts with their soft labels."""

    name = "naive_bayes"
    needs_words = True
    learns_from_documents = True
    arrays = {"weights": Array(("labels", "terms"), Range(-1e3, 1e3))}  # logarithms of frequencies, or differences

    def prior(self, data: TrainingData) -> float:
        return 0.2 if data.has_many_documents else 0.05  # documents show which words occur together

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        weights = fit_naive_bayes(data.corpus.words, data.soft_labels, data.text_weights, data.multi_label)
        return {"weights": weights}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        return NAIVE_BAYES_SHARPNESS * (features.words @ learned["weights"].T)

    def word_contributions(
        self, learned: Mapping[str, np.ndarray], weight: float, words: WordRows, label: int, against: int | None
    ) -> np.ndarray:
        return weight * NAIVE_BAYES_SHARPNESS * logits_of_words(learned["weights"], words, label, against)


def logits_of_words(weights: np.ndarray, words: WordRows, label: int, against: int | None) -> np.ndarray:
    """What each word of one text adds to the logit of a label, less that of ``against``, by weights ``(C, V)``."""
    subtracted = 0 if against is None else weights[against, words.indices]
    return words.data * (weights[label, words.indices] - subtracted)


def fit_naive_bayes(words: sp.csr_matrix, soft: np.ndarray, weights: np.ndarray, multi_label: bool) -> np.ndarray:
    """Fit ``log p(word | label)``, float32 ``(C, V)``, by TF-IDF ``(N, V)`` of texts with soft labels ``(N, C)``.

    With several labels per text: ``log p(word | label) - log p(word | not label)``.
    ``weights`` ``(N,)`` are those of the texts.
    """
    word_weights = _log_frequency(words, soft * weights[:, None])
    if multi_label:
        word_weights -= _log_frequency(words, (1 - soft) * weights[:, None])
    return word_weights.astype(np.float32, copy=False)


def _log_frequency(words: sp.csr_matrix, counts: np.ndarray) -> np.ndarray:
    """Smoothed log frequency of each word, ``(C, V)``, by weights of the texts for each label, ``(N, C)``."""
    frequency = (words.T @ counts).T  # in place from here on, as it is the largest array of a fit
    frequency += COUNT_SMOOTHING
    total = frequency.sum(1, keepdims=True)
    np.log(frequency, out=frequency)
    frequency -= np.log(total)
    return frequency


class WordRegression(Expert):
    """One logistic regression for each label on the words of the examples."""

    name = "word_regression"
    needs_words = True
    arrays = {"weights": Array(("labels", "terms and bias"), REGRESSION_WEIGHTS)}

    def prior(self, data: TrainingData) -> float:
        return 0.08  # few examples contain only few words; with more examples, the fit raises the weight

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        return {"weights": fit_word_regression(data.corpus.words[data.rows], data.targets)}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        return word_log_odds(features.words, learned["weights"])

    def word_contributions(
        self, learned: Mapping[str, np.ndarray], weight: float, words: WordRows, label: int, against: int | None
    ) -> np.ndarray:
        return weight * logits_of_words(learned["weights"], words, label, against)


def fit_word_regression(words: sp.csr_matrix, targets: np.ndarray) -> np.ndarray:
    """Fit weights of the words ``(n, V)`` and a bias for each label, ``(C, V + 1)``, to ``targets`` ``(n, C)``."""
    import scipy.sparse as sp

    from .logistic_regressions import fit_regressions

    kept = np.random.default_rng(0).permutation(len(targets))[:MAX_REGRESSION_EXAMPLES]
    words = words[kept]
    has_label = targets[kept] > 0
    seen = np.unique(words.indices)  # words that no example contains get the weight 0
    is_always = has_label.all(0)
    varying = np.flatnonzero(has_label.any(0) & ~is_always)
    # With a column of ones, for the bias.
    features = sp.csr_array(sp.hstack([words[:, seen], np.ones((len(has_label), 1), np.float32)]))
    weights = fit_regressions(features, has_label[:, varying], WORD_INVERSE_REGULARIZATION)
    found = np.zeros((words.shape[1] + 1, targets.shape[1]), np.float32).T  # words first, as in products with texts
    found[np.ix_(varying, seen)] = weights[:, :-1]
    found[:, -1] = np.where(is_always, LOG_ODDS_OF_CONSTANT_LABEL, -LOG_ODDS_OF_CONSTANT_LABEL)
    found[varying, -1] = weights[:, -1]
    return found


def word_log_odds(words: sp.csr_matrix | WordRows, weights: np.ndarray) -> np.ndarray:
    """Log odds ``(N, C)`` by the words ``(N, V)`` and the weights of ``fit_word_regression``."""
    return words @ weights[:, :-1].T + weights[:, -1]


def probabilities_of_log_odds(log_odds: np.ndarray, multi_label: bool) -> np.ndarray:
    """Convert log odds to probabilities ``(N, C)``; with one label per text, rows are normalized to a sum of 1."""
    probabilities = expit(log_odds.astype(np.float64))
    if multi_label:
        return probabilities
    return probabilities / np.maximum(probabilities.sum(1, keepdims=True), 1e-300)
