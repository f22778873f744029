"""Features of texts, dense or sparse, with labels to train and to test on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..classification.evaluation import prediction_metrics
from ..neighbors.store.keys import as_matrix, check_finite
from ..text.holding_out import hold_out_of_each_class
from .experiment import Evaluation
from .load_system import Features
from .task import ClassificationTask


class LabeledFeatures(NamedTuple):
    """Features ``(N, D)`` and ``(M, D)``, float32 or sparse, int64 labels, and what the training rows are made of."""

    train: Features
    train_labels: np.ndarray
    test: Features
    test_labels: np.ndarray
    train_inputs: Sequence[Hashable]
    test_inputs: Sequence[Hashable] = ()

    def held_out(self, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The training rows to keep, and those held out: a share of each class, equal inputs together."""
        return hold_out_of_each_class(self.train_inputs, self.train_labels, share, seed)

    def metrics(self, predictions: np.ndarray) -> dict[str, float]:
        """Of the labels ``(M,)`` that are predicted for the test rows. All classification is scored here."""
        return prediction_metrics(predictions, self.test_labels)

    def draw(self, shots: int, seed: int, label_names: Sequence[str]) -> LabeledFeatures:
        """The same with as many training examples of every class, as ``sample_per_class`` draws them."""
        rows = sample_per_class(self.train_labels, shots, seed, label_names)
        train_inputs = [self.train_inputs[row] for row in rows]
        return self._replace(train=self.train[rows], train_labels=self.train_labels[rows], train_inputs=train_inputs)


def labeled_features(evaluation: Evaluation) -> LabeledFeatures:
    """The features of a system on a ``ClassificationTask``."""
    task, system = evaluation.task, evaluation.system
    if task.train_pairs is None or task.test_pairs is None:
        train, test = system.features(task.train_texts, task.test_texts)
    else:
        both, first, second = system.features([*task.train_texts, *task.train_pairs], task.test_texts, task.test_pairs)
        count = len(task.train_texts)
        train, test = combine_pairs(both[:count], both[count:]), combine_pairs(first, second)
    return LabeledFeatures(
        check_features(train, "the training features", task.train_labels),
        task.train_labels,
        check_features(test, "the test features", task.test_labels),
        task.test_labels,
        task.train_inputs,
        task.test_texts if task.test_pairs is None else list(zip(task.test_texts, task.test_pairs, strict=True)),
    )


def combine_pairs(first: Features, second: Features) -> Features:
    """One vector for two: (u, v, abs(u - v), u * v), as in InferSent (Conneau et al. 2017), ``(N, 4 D)``."""
    if sparse.issparse(first):
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()
    return np.hstack([first, second, np.abs(first - second), first * second])


def check_features(features: Features, what: str, labels: np.ndarray | None = None) -> Features:
    """The features as float32 if dense, in the CSR format if sparse; refuses what would be measured as a bad system."""
    if sparse.issparse(features):
        features = features.tocsr()
        wrong = np.flatnonzero(~np.isfinite(features.data))
        if len(wrong):
            row = int(np.searchsorted(features.indptr, wrong[0], side="right")) - 1
            raise ValueError(f"{what}: row {row} holds NaN or infinity. Check the system that they come from.")
    else:
        features = as_matrix(features, what).astype(np.float32, copy=False)
        if len(features):
            check_finite(features, what)
    if features.shape[0] == 0:
        raise ValueError(f"{what}: there are none. Is the split empty?")
    if labels is not None and len(labels) != features.shape[0]:
        raise ValueError(f"{what}: {features.shape[0]} rows, but {len(labels)} labels. Give one label for each row.")
    return features


def held_out_settings(task: ClassificationTask) -> dict[str, str]:
    """None where no text is repeated: records from before equal texts were held out together are still right."""
    return {"equal_texts": "together"} if len(set(task.train_inputs)) < len(task.train_inputs) else {}


def sample_per_class(labels: np.ndarray, shots: int, seed: int, label_names: Sequence[str]) -> np.ndarray:
    """Rows of as many examples of every class, int64 ``(shots x classes,)``, ascending (DocSplit, appendix A.1).

    The examples of fewer shots are among those of more shots of the same seed, so that a curve over the number of shots
    does not jump for another draw. The paper does not say what becomes of a class with fewer: here it is an error.
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
