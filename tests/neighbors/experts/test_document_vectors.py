import numpy as np
import scipy.sparse as sp

from docsplit_hf.neighbors.experts.document_vectors import SHRINKAGE, fit_document_vectors, unit
from docsplit_hf.neighbors.experts.words import fit_words

from .stores import make_keys, make_texts

LABELS = np.arange(210) % 3  # enough texts for words to make dimensions


def test_whitening_is_the_root_of_the_inverse_covariance_after_shrinkage():
    """Its product with itself is; which of the roots it is, no cosine can tell."""
    embeddings, words = make_keys(LABELS), fit_words(make_texts(LABELS))[1]
    fitted = fit_document_vectors(embeddings, words)
    vectors = fitted.join(embeddings, fitted.of_words(words, 210)).astype(np.float64)
    covariance = np.cov(vectors.T)
    shrunk = covariance + SHRINKAGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    whitening = fitted.whitening.astype(np.float64)
    np.testing.assert_allclose(whitening @ whitening.T @ shrunk, np.eye(len(shrunk)), atol=1e-4)


def test_embedding_and_words_count_alike():
    embeddings, words = make_keys(LABELS), fit_words(make_texts(LABELS))[1]
    fitted = fit_document_vectors(embeddings, words)
    of_words = fitted.of_words(words, 210)
    joined = fitted.join(embeddings, of_words)
    centered = unit(embeddings - embeddings.mean(0))
    np.testing.assert_allclose(joined @ joined.T, (centered @ centered.T + of_words @ of_words.T) / 2, atol=1e-5)
    assert joined.dtype == fitted.whitened(joined).dtype == np.float32


def test_without_words_it_is_the_embedding():
    embeddings = make_keys(LABELS)
    nothing = sp.csr_matrix((210, 1), dtype=np.float32)
    for words in (None, nothing):
        fitted = fit_document_vectors(embeddings, words)
        joined = fitted.join(embeddings, fitted.of_words(words, 210))
        np.testing.assert_allclose(joined, unit(embeddings - embeddings.mean(0)), atol=1e-5)


def test_a_text_without_words_has_none_and_equal_embeddings_are_finite():
    words = fit_words(make_texts(LABELS))[1].tolil()
    words[3] = 0
    fitted = fit_document_vectors(np.ones((210, 4), np.float32), words.tocsr())
    of_words = fitted.of_words(words.tocsr(), 210)
    assert not of_words[3].any() and np.allclose(np.linalg.norm(of_words, axis=1)[4:], 1, atol=1e-5)
    joined = fitted.join(np.ones((210, 4), np.float32), of_words)
    assert np.isfinite(fitted.whitened(joined)).all()
