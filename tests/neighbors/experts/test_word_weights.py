import numpy as np
import scipy.sparse as sp

from docsplit_hf.neighbors.experts.word_weights import SHARPNESS, SMOOTHING, fit_word_weights, word_scores

WORDS = sp.random(30, 12, 0.4, format="csr", random_state=0, dtype=np.float32)
SOFT = np.random.default_rng(0).dirichlet(np.ones(3), 30).astype(np.float32)
WEIGHTS = np.where(np.arange(30) < 5, 3.0, 1.0).astype(np.float32)


def log_frequency(counts):
    frequency = np.array([counts[:, label] @ WORDS.toarray() for label in range(3)]) + SMOOTHING
    return np.log(frequency / frequency.sum(1, keepdims=True))


def test_it_is_naive_bayes():
    found = fit_word_weights(WORDS, SOFT, WEIGHTS, several=False)
    np.testing.assert_allclose(found, log_frequency(SOFT * WEIGHTS[:, None]), rtol=1e-4)
    np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(word_scores(WORDS, found), SHARPNESS * WORDS.toarray() @ found.T, rtol=1e-5)


def test_of_several_labels_it_is_with_against_without():
    found = fit_word_weights(WORDS, SOFT, WEIGHTS, several=True)
    weights = WEIGHTS[:, None]
    np.testing.assert_allclose(found, log_frequency(SOFT * weights) - log_frequency((1 - SOFT) * weights), atol=1e-4)
