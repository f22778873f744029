"""Metrics of a classifier."""

import numpy as np
import pytest

from docsplit_hf.finetuning.metrics_of_parts import classification_metrics, prediction_metrics

NAMES = ("accuracy", "macro_f1", "matthews_correlation", "log_loss")


def test_metrics_equal_closed_forms():
    labels = np.array([0, 1, 2, 2])
    assert classification_metrics(np.full((4, 3), 1 / 3), labels)["log_loss"] == pytest.approx(np.log(3))
    always_two = np.tile([0.1, 0.1, 0.8], (4, 1))
    found = classification_metrics(always_two, labels)
    assert tuple(found) == NAMES  # in the order of the logs
    expected = {"accuracy": 0.5, "macro_f1": pytest.approx((0 + 0 + 2 / 3) / 3), "matthews_correlation": 0}
    assert {name: found[name] for name in expected} == expected == prediction_metrics(always_two.argmax(1), labels)


def test_the_matthews_correlation_of_a_two_by_two_table():
    labels = np.array([1] * 6 + [0] * 4)
    predicted = np.array([1] * 5 + [0] + [1] + [0] * 3)  # tp 5, fn 1, fp 1, tn 3
    expected = (5 * 3 - 1 * 1) / np.sqrt(6 * 6 * 4 * 4)
    assert prediction_metrics(predicted, labels)["matthews_correlation"] == pytest.approx(expected)
    found = classification_metrics(np.eye(2)[predicted], labels)
    assert found["matthews_correlation"] == pytest.approx(expected)
