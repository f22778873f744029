import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from docsplit_hf.neighbors.experts.vocabulary import (
    INVERSE_REGULARIZATION,
    fit_vocabulary,
    vocabulary_scores,
    word_counts,
)

WORDS = csr_matrix(np.eye(4, dtype=np.float32))


def asked(targets, several):
    weights = fit_vocabulary(WORDS, np.asarray(targets), several)
    return word_counts(vocabulary_scores(WORDS[:1], weights), several)


def test_it_is_one_regression_for_each_label():
    rng = np.random.default_rng(0)
    words, labels = csr_matrix(rng.random((60, 8)) * (rng.random((60, 8)) < 0.5)), np.arange(60) % 3
    model = LogisticRegression(C=INVERSE_REGULARIZATION, tol=1e-8, max_iter=1_000)
    expected = OneVsRestClassifier(model).fit(words, labels).predict_proba(words)
    weights = fit_vocabulary(words, np.eye(3)[labels], False)
    found = word_counts(vocabulary_scores(words, weights), False)
    assert weights.shape == (3, 9) and np.abs(found - expected).max() < 0.05
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.95


def test_labels_that_no_text_or_every_text_has_are_no_reason_to_fail_or_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        several = asked([[1, 0, 1]] * 2 + [[1, 0, 0]] * 2, True)
        assert several[0, 0] > 0.999 and several[0, 1] < 0.001 and several[0, 2] > 0.5
        assert asked([[1], [1], [0], [0]], True)[0, 0] > 0.5
        assert asked(np.ones((4, 1)), True) == pytest.approx(1)
        one = asked([[0, 1, 0]] * 2 + [[0, 0, 1]] * 2, False)
        assert one[0].argmax() == 1 and one[0, 0] < 1e-6 and one.sum() == pytest.approx(1)
