"""The expert "classifier": one that was trained, or a linear probe, logistic regression on the vectors of examples."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sklearn.linear_model import LogisticRegression

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

INVERSE_REGULARIZATION = 20.0
UNKNOWN = 1e-3  # the share of a label that no example, or every example, has


class Classifier:
    """The trained classifier, or else a linear probe."""

    learns_from_documents = False

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        """Always."""
        return True

    def prior(self, lesson: Lesson) -> float:
        """Much where documents tell little."""
        return 0.2 if lesson.has_documents else 0.45

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        """The weights of the probe, and its bias last; nothing where a classifier was trained."""
        if lesson.has_head:
            return {}
        probe = fit_probe(lesson.corpus.vectors[lesson.rows], lesson.targets, lesson.several)
        return {"probe": np.column_stack(probe)}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        """Of the probe, or of the trained classifier."""
        if "probe" in learned:
            return asked.vectors @ learned["probe"][:, :-1].T + learned["probe"][:, -1]
        if asked.logits is None:
            raise ValueError(
                "The experts were fitted beside a trained classifier, and this encoder is none: fit() again."
            )
        return asked.logits

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Of the probe."""
        return {} if sizes.has_head else {"probe": (sizes.labels, sizes.dimensions + 1)}


def fit_probe(vectors: np.ndarray, targets: np.ndarray, several: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(C, D)`` and biases ``(C,)`` whose ``vectors @ weights.T + biases`` are logits, by ``targets`` (n, C).

    With several labels per text there is one regression for each label, and the logits are log odds.
    """
    if several:
        columns = [_binary(vectors, column) for column in targets.T]
        return np.stack([c[0] for c in columns]).astype(np.float32), np.array([c[1] for c in columns], np.float32)
    with warnings.catch_warnings():  # where each label has one example, scikit-learn asks whether they are numbers
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model = _regression().fit(vectors, targets.argmax(1))
    weights, biases = model.coef_, model.intercept_
    if len(weights) == 1:  # of two labels scikit-learn gives the log odds of the second
        weights, biases = np.vstack([-weights, weights]) / 2, np.array([-biases[0], biases[0]]) / 2
    return weights.astype(np.float32), biases.astype(np.float32)


def _binary(vectors: np.ndarray, has_label: np.ndarray) -> tuple[np.ndarray, float]:
    if has_label.min() == has_label.max():
        share = np.clip(has_label.mean(), UNKNOWN, 1 - UNKNOWN)
        return np.zeros(vectors.shape[1]), float(np.log(share / (1 - share)))
    model = _regression().fit(vectors, has_label > 0)
    return model.coef_[0], float(model.intercept_[0])


def _regression() -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300)
