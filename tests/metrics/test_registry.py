"""Metrics against scikit-learn."""

import evaluate
import numpy as np
import pytest
import sklearn.metrics
import torch
from sklearn.calibration import calibration_curve

from docsplit_hf import metric_path
from docsplit_hf.metrics.registry import CLASSIFICATION, rank_metrics, ranks_of_right


def compute(predictions, references, *names):
    metrics = evaluate.combine([metric_path(name) for name in names or CLASSIFICATION])
    return metrics.compute(predictions=predictions, references=references)


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


@pytest.mark.parametrize(("highest", "lower"), [(1.0, 0.95), (0.6, 0.55)])
def test_a_bin_of_the_calibration_error_ends_with_its_highest_confidence(highest, lower):
    """The first text is wrong and the second right, so that their gaps cancel in part if both are in one bin."""
    confidences = np.array([[highest, 1 - highest], [lower, 1 - lower]])
    error = compute(confidences, np.array([1, 0]))["expected_calibration_error"]
    assert error == pytest.approx(abs((1 - lower) - highest) / 2)


@pytest.mark.parametrize("several", [False, True])
def test_batches_give_the_same_as_all_examples_at_once(probabilities, labels, several):
    labels = np.eye(5, dtype=int)[labels] if several else labels
    metrics = evaluate.combine([metric_path(name) for name in CLASSIFICATION])
    for rows in np.array_split(np.arange(400), 3):
        metrics.add_batch(predictions=probabilities[rows].astype(np.float32), references=labels[rows])
    assert metrics.compute() == compute(probabilities.astype(np.float32), labels)


def test_metrics_work_without_a_writable_cache(tmp_path, probabilities, labels):
    (tmp_path / "file").touch()
    metric = evaluate.load(metric_path("accuracy"), cache_dir=str(tmp_path / "file" / "cache"))
    expected = metric.compute(predictions=probabilities, references=labels)
    metric.add_batch(predictions=probabilities, references=labels)
    assert metric.compute() == expected == compute(probabilities, labels, "accuracy")


@pytest.mark.parametrize("metric, predictions, references, message", [
    ("log_loss", np.zeros((0, 2)), np.zeros(0), "no examples"),
    ("log_loss", [0, 1], [0, 1], r"probabilities of shape \(N, C\).*got \(2,\) and \(2,\)"),
    ("log_loss", [[0.5, 0.5]], [0, 1], r"got \(1, 2\) and \(2,\)"),
    ("log_loss", [[0.5, 0.5]], None, "Give predictions and references"),
    ("log_loss", [[0.5, 0.5]], [2], "from 0 to 1, .*got 2 to 2"),
])  # fmt: skip
def test_invalid_inputs_are_refused(metric, predictions, references, message):
    with pytest.raises(ValueError, match=message):
        compute(predictions, references, metric)


def test_ranks_equal_scikit_learns():
    scores = np.random.default_rng(0).random((20, 20))
    found = rank_metrics(ranks_of_right(torch.from_numpy(scores), torch.arange(20)))
    for k in (1, 10):
        expected = sklearn.metrics.top_k_accuracy_score(np.arange(20), scores, k=k, labels=range(20))
        assert found[f"recall@{k}"] == pytest.approx(expected)
    expected = sklearn.metrics.label_ranking_average_precision_score(np.eye(20), scores)
    assert found["mrr"] == pytest.approx(expected) and found["chance_recall@1"] == 1 / 20


@pytest.mark.parametrize("score", [1.0, np.nan])
def test_equal_scores_and_nan_count_as_wrong(score):
    found = rank_metrics(ranks_of_right(torch.full((5, 5), score), torch.arange(5)))
    assert found["recall@1"] == 0 and found["mrr"] == pytest.approx(1 / 5)


def test_a_probability_of_zero_is_a_large_loss_not_an_infinite_one():
    assert 20 < compute([[1.0, 0.0]], [1], "log_loss")["log_loss"] < 30
