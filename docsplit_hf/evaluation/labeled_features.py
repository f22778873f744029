"""Features with labels to train and to test on: what probes and neighbors are measured by."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import hstack, issparse

from ...classification.evaluation import prediction_metrics
from ..systems.features import Features, check_features
from ..tasks.held_out import hold_out_of_each_class
from ..tasks.task import ClassificationTask
from .experiment import Evaluation


class LabeledFeatures(NamedTuple):
    """Features ``(N, D)`` and ``(M, D)``, float32 or sparse, int64 labels, and what the training rows are made of."""

    train: Features
    train_labels: np.ndarray
    test: Features
    test_labels: np.ndarray
    train_inputs: Sequence[Hashable]

    def held_out(self, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The training rows to keep, and those held out: a share of each class, equal inputs together."""
        return hold_out_of_each_class(self.train_inputs, self.train_labels, share, seed)

    def metrics(self, predictions: np.ndarray) -> dict[str, float]:
        """Of the labels ``(M,)`` that are predicted for the test rows. All classification is scored here."""
        return prediction_metrics(predictions, self.test_labels)


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
    )


def combine_pairs(first: Features, second: Features) -> Features:
    """One vector for two: (u, v, abs(u - v), u * v), as in InferSent (Conneau et al. 2017), ``(N, 4 D)``."""
    if issparse(first):
        return hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()
    return np.hstack([first, second, np.abs(first - second), first * second])


def held_out_settings(task: ClassificationTask) -> dict[str, str]:
    """None where no text is repeated: records from before equal texts were held out together are still right."""
    return {"equal_texts": "together"} if len(set(task.train_inputs)) < len(task.train_inputs) else {}
