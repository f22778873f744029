"""What every table is read against: word counts, and always the largest class."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

WORD_COUNTS, LARGEST_CLASS = "word counts", "largest class"
MOST_EXAMPLES = 10_000  # that word counts learn from: of more, a random sample
BY_CHANCE = 1.645  # standard deviations that chance alone exceeds once in twenty times


def word_counts(words: sp.csr_matrix, targets: np.ndarray, asked: sp.csr_matrix, several: bool) -> np.ndarray:
    """Probabilities ``(M, C)`` of texts by a logistic regression for each label, all from TF-IDF.

    It learns from ``words`` ``(n, V)`` with ``targets`` ``(n, C)`` of 0 and 1, and is asked about ``(M, V)``.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    kept = np.random.default_rng(0).permutation(len(targets))[:MOST_EXAMPLES]
    # The dual solver: on words it takes a tenth of the time of the default, which also stops too early there.
    model = OneVsRestClassifier(LogisticRegression(C=20, solver="liblinear", dual=True, max_iter=1_000, random_state=0))
    with warnings.catch_warnings():  # of a label that all texts have, or none, there is nothing to learn
        warnings.filterwarnings("ignore", "Label .* is present in all training examples", UserWarning)
        # One column of 0 and 1 would be taken for two classes: an empty one more says that there may be several labels.
        columns = np.pad(targets[kept].astype(int), ((0, 0), (0, 1)))
        model.fit(words[kept], columns if several else columns.argmax(1))
    probabilities = np.zeros((asked.shape[0], columns.shape[1]))
    probabilities[:, model.classes_] = model.predict_proba(asked)
    return probabilities[:, :-1]


def largest_class(targets: np.ndarray, count: int, several: bool) -> np.ndarray:
    """The same for each of ``count`` texts: the shares of the labels; of several, the most frequent set is likely."""
    shares = targets.mean(0)
    if several:
        sets, counts = np.unique(targets, axis=0, return_counts=True)
        shares = np.where(sets[counts.argmax()] > 0, np.maximum(shares, 0.5), np.minimum(shares, 0.49))
    return np.tile(shares, (count, 1))


def at_chance(accuracy: float, largest: float | None, texts: int) -> str:
    """A line where an accuracy on so many texts is, but for chance, no better than that of the largest class."""
    if largest is None or accuracy - largest > BY_CHANCE * np.sqrt(largest * (1 - largest) / texts):
        return ""
    return (
        f"\nNot reliably better than always the largest class: {accuracy:.1%} right against {largest:.1%}, on "
        f"{texts:,} texts. Nothing shows yet that these labels can be told apart: add examples, or check the labels."
    )
