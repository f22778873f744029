"""Metrics against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from sklearn.calibration import calibration_curve

from docsplit_hf.metrics.of_arrays import OF_LABELS, REPORTED, classification_metrics


def compute(predictions, references, *names):
    return classification_metrics(predictions, references, names or None)


@pytest.fixture
def probabilities():
    return np.random.default_rng(0).dirichlet(np.ones(5), 400)


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 4, 400)  # one label never occurs


def test_metrics_equal_scikit_learns(probabilities, labels):
    predicted = probabilities.argmax(1)
    expected = {
        "accuracy": sklearn.metrics.accuracy_score(labels, predicted),
        "macro_f1": sklearn.metrics.f1_score(labels, predicted, average="macro"),
        "matthews_correlation": sklearn.metrics.matthews_corrcoef(labels, predicted),
    }
    found = compute(probabilities, labels)
    assert {name: found[name] for name in expected} == expected == compute(predicted, labels, *expected)
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(labels, probabilities, labels=range(5)))


@pytest.mark.filterwarnings("error")
def test_constant_labels_have_a_correlation_of_0():
    assert compute([1, 1], [1, 1], "matthews_correlation") == compute([0, 1], [1, 1], "matthews_correlation")
    assert compute([1, 1], [1, 1], "matthews_correlation") == {"matthews_correlation": 0}


def test_several_labels_per_text(probabilities):
    labels = np.random.default_rng(1).random((400, 5)) < 0.3
    predicted = probabilities >= 0.5
    found = compute(probabilities, labels)
    assert found["accuracy"] == sklearn.metrics.accuracy_score(labels, predicted)
    assert found["macro_f1"] == sklearn.metrics.f1_score(labels, predicted, average="macro", zero_division=0)
    correlation = sklearn.metrics.matthews_corrcoef(labels.ravel(), predicted.ravel())
    assert found["matthews_correlation"] == correlation
    binary = sklearn.metrics.log_loss(labels.ravel(), probabilities.ravel())
    assert found["log_loss"] == pytest.approx(binary)


def test_the_calibration_error_is_the_mean_over_bins(probabilities, labels):
    confidence = probabilities.max(1)
    is_right = probabilities.argmax(1) == labels
    accuracies, confidences = calibration_curve(is_right, confidence, n_bins=15)
    sizes, _ = np.histogram(confidence, np.linspace(0, 1, 16))
    expected = (sizes[sizes > 0] * abs(accuracies - confidences)).sum() / 400
    assert compute(probabilities, labels)["expected_calibration_error"] == pytest.approx(expected)
    sure = np.array([[1.0, 0.0]] * 4)
    assert compute(sure, np.array([0, 0, 0, 1]))["expected_calibration_error"] == 0.25
    assert compute(sure, sure.astype(int))["expected_calibration_error"] == 0


@pytest.mark.parametrize("metric, predictions, references, message", [
    ("log_loss", np.zeros((0, 2)), np.zeros(0), "no examples"),
    ("log_loss", [0, 1], [0, 1], r"probabilities of shape \(N, C\).*got \(2,\) and \(2,\)"),
    ("log_loss", [[0.5, 0.5]], [0, 1], r"got \(1, 2\) and \(2,\)"),
    ("f1", [[0.5, 0.5]], [0], "no metric 'f1': choose one of accuracy, "),
    ("log_loss", [[0.5, 0.5]], [2], "from 0 to 1, .*got 2 to 2"),
])  # fmt: skip
def test_invalid_inputs_are_refused(metric, predictions, references, message):
    with pytest.raises(ValueError, match=message):
        compute(predictions, references, metric)


def test_a_probability_of_zero_is_a_large_loss_not_an_infinite_one():
    assert 20 < compute([[1.0, 0.0]], [1], "log_loss")["log_loss"] < 30


def test_metrics_equal_closed_forms():
    labels = np.array([0, 1, 2, 2])
    assert compute(np.full((4, 3), 1 / 3), labels)["log_loss"] == pytest.approx(np.log(3))
    always_two = np.tile([0.1, 0.1, 0.8], (4, 1))
    found = compute(always_two, labels, *REPORTED)
    assert tuple(found) == REPORTED  # in the order of the logs
    expected = {"accuracy": 0.5, "macro_f1": pytest.approx((0 + 0 + 2 / 3) / 3), "matthews_correlation": 0}
    assert {name: found[name] for name in expected} == expected == compute(always_two.argmax(1), labels, *OF_LABELS)


def test_the_matthews_correlation_of_a_two_by_two_table():
    labels = np.array([1] * 6 + [0] * 4)
    predicted = np.array([1] * 5 + [0] + [1] + [0] * 3)  # tp 5, fn 1, fp 1, tn 3
    expected = (5 * 3 - 1 * 1) / np.sqrt(6 * 6 * 4 * 4)
    assert compute(predicted, labels, *OF_LABELS)["matthews_correlation"] == pytest.approx(expected)
    found = compute(np.eye(2)[predicted], labels)
    assert found["matthews_correlation"] == pytest.approx(expected)
