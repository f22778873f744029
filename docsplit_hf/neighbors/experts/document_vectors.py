"""One vector per text, of its embedding and its words; and the same, whitened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .words import FEW_TEXTS

if TYPE_CHECKING:
    import scipy.sparse as sp

WORD_DIMENSIONS = 256
TEXTS_PER_DIMENSION = 3  # at least: of fewer, the words of one text would be a dimension, and tell folds too much
SHRINKAGE = 3.0  # of the covariance, toward its mean variance: without it, whitening is mostly noise


class DocumentVectors(NamedTuple):
    """How texts become vectors: fitted on all texts there are, with and without labels."""

    mean: np.ndarray  # (D,) of the embeddings
    components: np.ndarray  # (r, V): latent semantic analysis of the words; r is 0 without words
    whitening: np.ndarray  # (D + r, D + r)

    def of_words(self, words: sp.csr_matrix | None, count: int) -> np.ndarray:
        """The words of ``count`` texts, TF-IDF ``(N, V)``, in r dimensions, of norm 1; 0 for a text without any."""
        if words is None or not len(self.components):
            return np.zeros((count, len(self.components)), np.float32)
        return unit(words @ self.components.T)

    def join(self, embeddings: np.ndarray, of_words: np.ndarray) -> np.ndarray:
        """Float32 ``(N, D + r)`` of norm 1: the embedding less the mean, and the words, which count alike."""
        centered = unit(embeddings.astype(np.float32, copy=False) - self.mean)
        return unit(np.hstack([centered, of_words]))

    def embeddings_of(self, vectors: np.ndarray) -> np.ndarray:
        """The part of vectors that is of the embeddings, ``(N, D)``, of norm 1."""
        return unit(vectors[:, : len(self.mean)])

    def whitened(self, vectors: np.ndarray) -> np.ndarray:
        """The same without the directions in which all texts differ most, whatever they are about; of norm 1."""
        return unit(vectors @ self.whitening)


def fit_document_vectors(embeddings: np.ndarray, words: sp.csr_matrix | None) -> DocumentVectors:
    """Fit on the embeddings ``(N, D)`` and the words ``(N, V)`` of all texts."""
    mean = embeddings.mean(0, dtype=np.float64).astype(np.float32)
    components = _latent_words(words)
    vectors = DocumentVectors(mean, components, np.zeros((0, 0), np.float32))
    joined = vectors.join(embeddings, vectors.of_words(words, len(embeddings)))
    return vectors._replace(whitening=_whitening(joined))


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of norm 1; rows of 0 stay."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)


def _latent_words(words: sp.csr_matrix | None) -> np.ndarray:
    from sklearn.decomposition import TruncatedSVD

    if words is None:
        return np.zeros((0, 0), np.float32)
    if words.shape[0] < FEW_TEXTS:
        return np.zeros((0, words.shape[1]), np.float32)
    dimensions = min(WORD_DIMENSIONS, words.shape[0] // TEXTS_PER_DIMENSION, words.shape[1] - 1)
    if dimensions < 1:
        return np.zeros((0, words.shape[1]), np.float32)
    return TruncatedSVD(dimensions, n_iter=3, random_state=0).fit(words).components_.astype(np.float32)


def _whitening(vectors: np.ndarray) -> np.ndarray:
    """The inverse root of the covariance C after shrinkage: ``(C + 3 mean(diag C) I)^(-1/2)``."""
    centered = vectors - vectors.mean(0)
    variances, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64) / max(len(vectors) - 1, 1))
    scale = np.maximum(variances, 0) + SHRINKAGE * max(variances.mean(), 1e-12)
    return (directions * scale**-0.5).astype(np.float32)
