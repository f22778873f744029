import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from docsplit_hf.fitting.experts import logistic_regressions
from docsplit_hf.fitting.experts.logistic_regressions import fit_regressions


@pytest.fixture(autouse=True)
def _precise(monkeypatch):
    monkeypatch.setattr(logistic_regressions, "GRADIENT_TOLERANCE", 1e-3)


def make_problem(texts, terms, labels, seed=0):
    """TF-IDF of texts with a few words, which depend on the label."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, labels, texts)
    words = (numbers[:, None] * 3 + rng.integers(0, 12, (texts, 8))) % terms
    counts = np.zeros((texts, terms), np.float32)
    np.add.at(counts, (np.arange(texts)[:, None], words), 1)
    features = sp.csr_array(counts)  # whose indices have 32 bits, as scikit-learn wants them
    features = sp.diags_array(1 / np.sqrt(features.multiply(features).sum(1))) @ features
    features = sp.csr_array(sp.hstack([features, np.ones((texts, 1))])).astype(np.float32)
    features.indices = features.indices.astype(np.int32)
    features.indptr = features.indptr.astype(np.int32)
    return features, (numbers[:, None] == np.arange(labels)).astype(np.float32)


@pytest.mark.parametrize(("texts", "terms", "labels"), [(12, 30, 2), (300, 80, 7), (400, 900, 130)])
def test_regressions_equal_those_of_scikit_learn(texts, terms, labels):
    features, targets = make_problem(texts, terms, labels)
    targets = targets[:, targets.any(0)]
    found = fit_regressions(features, targets, 20.0)
    for label in range(0, targets.shape[1], 10):
        model = LogisticRegression(
            C=20.0,
            solver="liblinear",
            dual=True,
            fit_intercept=False,  # the bias is a feature
            tol=1e-8,
            max_iter=10_000,
        )
        model.fit(features, targets[:, label] > 0)
        np.testing.assert_allclose(features @ found[label], features @ model.coef_[0], atol=2e-3)


@pytest.mark.parametrize("dense_speed", [0, 25])
def test_labels_do_not_depend_on_those_beside_them(monkeypatch, dense_speed):
    monkeypatch.setattr(logistic_regressions, "DENSE_SPEED", dense_speed)
    features, targets = make_problem(200, 60, 9)
    together = fit_regressions(features, targets, 20.0)
    monkeypatch.setattr(logistic_regressions, "LABELS_PER_BLOCK", 2)
    monkeypatch.setattr(logistic_regressions, "LABELS_PER_DENSE_BLOCK", 2)
    np.testing.assert_allclose(fit_regressions(features, targets, 20.0), together, atol=2e-3)


def test_contradictory_examples_give_finite_weights():
    features = sp.csr_array(np.ones((4, 2), np.float32))
    found = fit_regressions(features, np.array([[1.0], [0.0], [1.0], [0.0]]), 20.0)
    np.testing.assert_allclose(features @ found[0], 0, atol=1e-3)


def test_the_tolerance_moves_logits_by_less_than_it(monkeypatch):
    features, targets = make_problem(300, 80, 7)
    precise = features @ fit_regressions(features, targets, 20.0).T
    monkeypatch.setattr(logistic_regressions, "GRADIENT_TOLERANCE", 0.1)
    np.testing.assert_allclose(features @ fit_regressions(features, targets, 20.0).T, precise, atol=0.1)
