"""Probes: classifiers on frozen features, with all or few examples."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from ..classifier.knn_datastore import KNNDatastore
from ..finetuning.metrics_of_parts import prediction_metrics
from ..fitting.ensemble.fit_experts import fit_experts
from ..fitting.ensemble.problem import Problem
from ..fitting.ensemble.scoring import PreparedExperts, score_texts
from ..reading.holding_out import hold_out_of_each_class
from .systems import Features

logger = logging.getLogger(__name__)

HELD_OUT_FRACTION = 0.1
FEWEST_TO_HOLD_OUT = 500  # examples, of which a tenth is enough to choose C


class LabeledFeatures(NamedTuple):
    """Features ``(N, D)`` and ``(M, D)``, float32 or sparse, with int64 labels and the texts of the rows."""

    train: Features
    train_labels: np.ndarray
    test: Features
    test_labels: np.ndarray
    train_inputs: Sequence[Hashable]  # texts, or pairs of texts
    test_inputs: Sequence[Hashable] = ()

    def metrics(self, predictions: np.ndarray) -> dict[str, float]:
        """The metrics of labels predicted for the test rows, ``(M,)``."""
        return prediction_metrics(predictions, self.test_labels)

    def draw(self, shots: int, seed: int, label_names: Sequence[str]) -> LabeledFeatures:
        """Keep ``shots`` training examples of every class, drawn by ``sample_per_class``."""
        rows = sample_per_class(self.train_labels, shots, seed, label_names)
        train_inputs = [self.train_inputs[row] for row in rows]
        return self._replace(train=self.train[rows], train_labels=self.train_labels[rows], train_inputs=train_inputs)


def sample_per_class(labels: np.ndarray, shots: int, seed: int, label_names: Sequence[str]) -> np.ndarray:
    """Draw ``shots`` examples of every class: their rows, int64, ascending (DocSplit, appendix A.1).

    With the same seed, more shots include the examples of fewer shots, so that curves are smooth.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < shots:
        short = [
            f"{label_names[number]!r} has {count}"
            for number, count in zip(classes, counts, strict=True)
            if count < shots
        ]
        more = f" (and {len(short) - 5} more classes are too small)" if len(short) > 5 else ""
        raise ValueError(
            f"{shots} examples of each class are to be drawn, but in the training set {', '.join(short[:5])}{more}: "
            f"lower the number of shots to {counts.min()}, or give more examples."
        )
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.sort(np.concatenate([order[labels[order] == label][:shots] for label in classes]))


def logistic_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Predict labels, ``(M,)``, by logistic regression, or for sparse features by a linear support vector machine."""
    kept, held_out = rows_to_choose_by(features, seed)
    classifier = fit_linear(features.train, features.train_labels, kept, held_out, seed)
    return classifier.predict(features.test)


def rows_to_choose_by(features: LabeledFeatures, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training rows to keep, and a held-out tenth of each class, equal inputs together; none of few examples."""
    if len(features.train_labels) < FEWEST_TO_HOLD_OUT:
        return np.arange(len(features.train_labels)), np.arange(0)
    return hold_out_of_each_class(features.train_inputs, features.train_labels, HELD_OUT_FRACTION, seed)


def fit_linear(features: Features, labels: np.ndarray, kept: np.ndarray, held_out: np.ndarray, seed: int) -> Any:
    """Fit a linear classifier to all rows, with the C of the highest accuracy on the held-out rows."""
    if sparse.issparse(features):
        classifier = LinearSVC(random_state=seed)  # liblinear visits the examples in a random order
        strengths = (0.1, 1.0, 10.0)
    else:
        classifier = LogisticRegression(max_iter=1000)
        strengths = (1.0, 10.0, 100.0)
    if len(held_out) == 0:
        return classifier.set_params(C=strengths[1]).fit(features, labels)
    search = GridSearchCV(classifier, {"C": strengths}, cv=[(kept, held_out)])  # the smallest C if several are best
    search.fit(features, labels)
    logger.info(
        f"C = {search.best_params_['C']:g}, with an accuracy of {search.best_score_:.3f} on {len(held_out)} held-out "
        "examples."
    )
    return search.best_estimator_


def ensemble_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Predict labels, ``(M,)``, by the ensemble that ``KNNClassifierPipeline.fit`` fits to the training examples."""
    label_names = [str(number) for number in range(int(features.train_labels.max()) + 1)]
    train_texts = _as_texts(features.train_inputs)
    snapshot = KNNDatastore(features.train, features.train_labels, label_names, train_texts).snapshot
    ready = PreparedExperts.of(snapshot, fit_experts(Problem(snapshot), show_progress=False))
    answers = score_texts(ready, features.test, _as_texts(features.test_inputs), None)
    return answers.probabilities.argmax(1)


def _as_texts(inputs: Sequence[Hashable]) -> list[str]:
    """Join the texts of pairs."""
    return [given if isinstance(given, str) else " ".join(given) for given in inputs]


def largest_class_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Predict the largest class of the test texts for every text, ``(M,)``."""
    return np.full_like(features.test_labels, np.bincount(features.test_labels).argmax())
