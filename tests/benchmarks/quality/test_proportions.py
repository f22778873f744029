"""The figures of the benchmark of proportions, by closed forms."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from benchmarks.quality.few_labels.protocol import FewLabels
from benchmarks.quality.proportions import regularized_by_confusion, unequal_rows, weighted_figures


def test_weighted_figures_are_those_of_repeated_texts():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    probabilities = rng.dirichlet(np.ones(3), 60)
    found = weighted_figures(probabilities, labels, np.array([60, 20, 40]))
    repeated = np.repeat(np.arange(60), np.array([3, 1, 2])[labels])
    answers = probabilities[repeated].argmax(1)
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(labels[repeated], answers))
    assert found["macro_f1"] == pytest.approx(100 * f1_score(labels[repeated], answers, average="macro"))


@pytest.mark.parametrize("exponent, classes, ratio", [(0.0, 4, 1), (1.0, 4, 4), (1.0, 2, 4)])
def test_a_pile_has_the_wanted_proportions(exponent, classes, ratio):
    labels = np.repeat(np.arange(classes), 400)
    names = [str(label) for label in range(classes)]
    texts = [""] * len(labels)
    task = FewLabels("task", names, names, texts, labels, [], labels[:0])
    examples = np.arange(0, len(labels), 40)
    rows = unequal_rows(task, examples, exponent, 0)
    counts = np.bincount(labels[rows], minlength=classes)
    assert not np.isin(rows, examples).any()
    assert counts.max() / counts.min() == pytest.approx(ratio, rel=0.02)


def test_certain_predictions_confirm_their_mean_but_for_the_penalty():
    targets = np.eye(2)[np.arange(10) % 2]
    found = regularized_by_confusion(targets, targets, np.array([0.8, 0.2]))
    np.testing.assert_allclose(found, 0.5 + np.array([0.3, -0.3]) / 1.3)
