import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from docsplit_hf.neighbors.experts.linear_probe import INVERSE_REGULARIZATION, UNKNOWN, fit_probe

from .stores import make_keys

LABELS = np.arange(45) % 3


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_logistic_regression(classes):
    labels, vectors = LABELS % classes, make_keys(LABELS, noise=4.0)
    weights, biases = fit_probe(vectors, np.eye(classes)[labels], several=False)
    logits = vectors @ weights.T + biases
    model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300).fit(vectors, labels)
    odds = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(1, keepdims=True), model.predict_proba(vectors), atol=1e-4)


def test_of_several_labels_it_is_one_for_each_and_a_constant_where_none_or_all_have_it():
    vectors, targets = make_keys(LABELS, noise=4.0), np.zeros((45, 3))
    targets[:, 0], targets[:, 2] = LABELS == 0, 1
    weights, biases = fit_probe(vectors, targets, several=True)
    model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300).fit(vectors, LABELS == 0)
    np.testing.assert_allclose(vectors @ weights[0] + biases[0], model.decision_function(vectors), atol=1e-3)
    assert not weights[1:].any()
    np.testing.assert_allclose(1 / (1 + np.exp(-biases[1:])), [UNKNOWN, 1 - UNKNOWN], rtol=1e-4)


def test_one_example_of_each_label_is_enough(recwarn):
    weights, _ = fit_probe(np.eye(5, dtype=np.float32), np.eye(5), several=False)
    assert weights.shape == (5, 5) and (weights.argmax(1) == np.arange(5)).all() and not recwarn
