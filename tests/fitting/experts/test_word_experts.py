import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from docsplit_hf.fitting.experts.word_experts import (
    COUNT_SMOOTHING,
    NAIVE_BAYES_SHARPNESS,
    WORD_INVERSE_REGULARIZATION,
    NaiveBayes,
    fit_naive_bayes,
    fit_word_regression,
    probabilities_of_log_odds,
    word_log_odds,
)

from ..ensemble.stores import features_of

WORDS = sp.random(30, 12, 0.4, format="csr", random_state=0, dtype=np.float32)
SOFT = np.random.default_rng(0).dirichlet(np.ones(3), 30).astype(np.float32)
WEIGHTS = np.where(np.arange(30) < 5, 3.0, 1.0).astype(np.float32)


def log_frequency(counts):
    frequency = np.array([counts[:, label] @ WORDS.toarray() for label in range(3)]) + COUNT_SMOOTHING
    return np.log(frequency / frequency.sum(1, keepdims=True))


def test_naive_bayes_counts_words_by_soft_labels():
    found = fit_naive_bayes(WORDS, SOFT, WEIGHTS, multi_label=False)
    np.testing.assert_allclose(found, log_frequency(SOFT * WEIGHTS[:, None]), rtol=1e-4)
    np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-5)
    logits = NaiveBayes().score({"weights": found}, features_of(words=WORDS))
    np.testing.assert_allclose(logits, NAIVE_BAYES_SHARPNESS * WORDS.toarray() @ found.T, rtol=1e-5)


def test_with_several_labels_naive_bayes_compares_texts_with_and_without_the_label():
    found = fit_naive_bayes(WORDS, SOFT, WEIGHTS, multi_label=True)
    weights = WEIGHTS[:, None]
    np.testing.assert_allclose(found, log_frequency(SOFT * weights) - log_frequency((1 - SOFT) * weights), atol=1e-4)


FOUR_WORDS = csr_matrix(np.eye(4, dtype=np.float32))


def probabilities_of_first_word(targets, multi_label):
    weights = fit_word_regression(FOUR_WORDS, np.asarray(targets))
    return probabilities_of_log_odds(word_log_odds(FOUR_WORDS[:1], weights), multi_label)


def test_the_word_regression_is_one_for_each_label():
    rng = np.random.default_rng(0)
    words = csr_matrix(rng.random((60, 8)) * (rng.random((60, 8)) < 0.5))
    labels = np.arange(60) % 3
    model = LogisticRegression(C=WORD_INVERSE_REGULARIZATION, tol=1e-8, max_iter=1_000)
    expected = OneVsRestClassifier(model).fit(words, labels).predict_proba(words)
    weights = fit_word_regression(words, np.eye(3)[labels])
    found = probabilities_of_log_odds(word_log_odds(words, weights), False)
    assert weights.shape == (3, 9) and np.abs(found - expected).max() < 0.05
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.95


def test_labels_that_no_text_or_every_text_has_cause_no_error_or_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = probabilities_of_first_word([[1, 0, 1]] * 2 + [[1, 0, 0]] * 2, True)
        assert found[0, 0] > 0.999 and found[0, 1] < 0.001 and found[0, 2] > 0.5
        assert probabilities_of_first_word([[1], [1], [0], [0]], True)[0, 0] > 0.5
        assert probabilities_of_first_word(np.ones((4, 1)), True) == pytest.approx(1)
        one = probabilities_of_first_word([[0, 1, 0]] * 2 + [[0, 0, 1]] * 2, False)
        assert one[0].argmax() == 1 and one[0, 0] < 1e-6 and one.sum() == pytest.approx(1)
