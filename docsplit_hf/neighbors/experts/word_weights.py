"""The expert "words": naive Bayes over the words of all texts with their soft labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import scipy.sparse as sp

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

SMOOTHING = 0.1
SHARPNESS = 5.0  # the words of a text are of norm 1 in TF-IDF; naive Bayes would count each as often as it is there


class Words:
    """Naive Bayes."""

    learns_from_documents = True

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        """From texts that have words."""
        return corpus.words is not None

    def prior(self, lesson: Lesson) -> float:
        """Little where no documents show which words go together."""
        return 0.2 if lesson.has_documents else 0.05

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        """How much each word speaks for each label."""
        return {"word_weights": fit_word_weights(lesson.corpus.words, lesson.soft, lesson.weights, lesson.several)}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        """Of the words of texts."""
        return word_scores(asked.words, learned["word_weights"])

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """A weight for each word and label."""
        return {"word_weights": (sizes.labels, sizes.terms)}


def fit_word_weights(words: sp.csr_matrix, soft: np.ndarray, weights: np.ndarray, several: bool) -> np.ndarray:
    """How much each word speaks for each label, float32 ``(C, V)``: ``log p(word | label)``.

    ``words`` are TF-IDF ``(N, V)`` of texts with soft labels ``(N, C)`` that count ``weights`` ``(N,)``. With several
    labels per text it is the logarithm of how many times as frequent the word is with the label as without.
    """
    speaking = _log_frequency(words, soft * weights[:, None])
    if several:
        speaking -= _log_frequency(words, (1 - soft) * weights[:, None])
    return speaking.astype(np.float32)


def word_scores(words: sp.csr_matrix, weights: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)`` of texts by their words."""
    return SHARPNESS * np.asarray(words @ weights.T)


def _log_frequency(words: sp.csr_matrix, counts: np.ndarray) -> np.ndarray:
    frequency = (words.T @ counts).T + SMOOTHING
    return np.log(frequency / frequency.sum(1, keepdims=True))
