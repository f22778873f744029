import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from docsplit_hf.fitting.experts.linear_probe import (
    LEAST_ASSUMED_PROPORTION,
    PROBE_INVERSE_REGULARIZATION,
    fit_distributions,
    fit_probe,
)
from docsplit_hf.fitting.experts.text_vectors import unit

from ..ensemble.stores import make_keys

LABELS = np.arange(45) % 3


@pytest.mark.parametrize("classes", [2, 3])
def test_the_probe_is_logistic_regression(classes):
    labels = LABELS % classes
    vectors = unit(make_keys(LABELS, noise=4.0))
    probe = fit_probe(vectors, np.eye(classes)[labels], multi_label=False)
    logits = vectors @ probe[:, :-1].T + probe[:, -1]
    model = LogisticRegression(C=PROBE_INVERSE_REGULARIZATION, max_iter=300).fit(vectors, labels)
    odds = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(1, keepdims=True), model.predict_proba(vectors), atol=1e-4)


def test_with_several_labels_the_probe_is_one_regression_each_and_a_constant_for_constant_labels():
    vectors = unit(make_keys(LABELS, noise=4.0))
    targets = np.zeros((45, 3))
    targets[:, 0] = LABELS == 0
    targets[:, 2] = 1
    probe = fit_probe(vectors, targets, multi_label=True)
    weights = probe[:, :-1]
    biases = probe[:, -1]
    model = LogisticRegression(C=PROBE_INVERSE_REGULARIZATION, max_iter=300).fit(vectors, LABELS == 0)
    np.testing.assert_allclose(vectors @ weights[0] + biases[0], model.decision_function(vectors), atol=1e-3)
    assert not weights[1:].any()
    np.testing.assert_allclose(
        1 / (1 + np.exp(-biases[1:])), [LEAST_ASSUMED_PROPORTION, 1 - LEAST_ASSUMED_PROPORTION], rtol=1e-4
    )


def test_the_probe_fits_one_example_of_each_label(recwarn):
    weights = fit_probe(np.eye(5, dtype=np.float32), np.eye(5), multi_label=False)[:, :-1]
    assert weights.shape == (5, 5) and (weights.argmax(1) == np.arange(5)).all() and not recwarn


def test_texts_count_by_their_weights_and_their_distributions():
    """A text with two labels is two texts, each with a part of its weight."""
    vectors = unit(make_keys(LABELS, noise=4.0))
    targets = np.eye(3)[LABELS]
    targets[0] = [0.25, 0, 0.75]
    weights = np.linspace(0.5, 2, 45)
    found = fit_distributions(vectors, targets, weights)
    parts = np.concatenate([weights * targets[:, label] for label in range(3)])
    kept = parts > 0
    copies = np.tile(vectors, (3, 1))[kept]
    model = LogisticRegression(C=PROBE_INVERSE_REGULARIZATION, max_iter=300)
    model.fit(copies, np.repeat(np.arange(3), 45)[kept], sample_weight=parts[kept])
    expected = model.decision_function(vectors)
    logits = vectors @ found[:, :-1].T + found[:, -1]
    np.testing.assert_allclose(logits - logits.mean(1, keepdims=True), expected, atol=1e-3)


def test_the_probe_learns_with_thousands_of_labels():
    """The gradient of each label is small from the beginning."""
    labels = 2_000
    vectors = unit(np.random.default_rng(0).standard_normal((labels, 32)).astype(np.float32))
    probe = fit_probe(vectors, np.eye(labels, dtype=np.float32), multi_label=False)
    assert ((vectors @ probe[:, :-1].T + probe[:, -1]).argmax(1) == np.arange(labels)).mean() > 0.99
