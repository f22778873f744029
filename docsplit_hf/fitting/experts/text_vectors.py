"""Vectors of texts: TF-IDF of their words, and embeddings and words together.

The system ``tfidf`` of ``docsplit evaluate`` is another one: it also counts pairs of words, and splits scripts without
spaces into single characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from ...arrays.keys import LARGEST_VALUE
from ...reading.characters import words_of
from ...reading.shingles import NumberedWords
from .saved_types import UNIT_COMPONENTS, Array, Range

if TYPE_CHECKING:
    import scipy.sparse as sp

MAX_TERMS = 30_000
FEW_TEXTS = 200  # with fewer, rare and frequent words are kept, and vectors have no dimensions from words
WORD_DIMENSIONS = 256
# With fewer, the words of one text form a dimension, which leaks labels to folds. If most texts are versions of others,
# versions of one text count as one.
TEXTS_PER_DIMENSION = 3
EXTRA_SINGULAR_VECTORS = 10  # computed to make the others exact
SINGULAR_VECTOR_ROUNDS = 3  # with 2, a twentieth of their space is another one
LEAST_LENGTH = 1e-5  # of a column, as a part of the longest one; shorter ones are rounding
SHRINKAGE = 3.0  # of the covariance, toward its mean variance: without it, whitening amplifies noise


def fit_words(words: NumberedWords) -> tuple[list[str], np.ndarray, sp.csr_matrix | None]:
    """Fit TF-IDF on texts: terms, their ``idf_`` ``(V,)``, and float32 ``(N, V)``; None if no word is left.

    The result is that of scikit-learn's ``TfidfVectorizer``, which would count words in a loop of Python.
    """
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfTransformer

    texts = len(words.of_texts)
    alphabetical = sorted(range(len(words.vocabulary)), key=words.vocabulary.__getitem__)
    columns = np.argsort(alphabetical)[np.concatenate([np.zeros(0, np.int32), *words.of_texts])]
    starts = np.cumsum([0, *map(len, words.of_texts)])
    counts = sp.csr_matrix((np.ones(len(columns), np.float32), columns, starts), (texts, len(alphabetical)))
    counts.sum_duplicates()  # also sorts the columns
    holders = np.bincount(counts.indices, minlength=len(alphabetical))  # texts with each word
    kept = np.flatnonzero(holders > 0 if texts < FEW_TEXTS else (holders >= 2) & (holders <= texts / 2))
    if not len(kept):
        return [], np.zeros(0, np.float32), None
    frequencies = counts.sum(0).A1[kept]
    kept = np.sort(kept[(-frequencies).argsort()[:MAX_TERMS]]) if len(kept) > MAX_TERMS else kept
    transformer = TfidfTransformer(sublinear_tf=True)
    weights = transformer.fit_transform(counts[:, kept])
    return [words.vocabulary[alphabetical[column]] for column in kept], transformer.idf_, weights


class WordRows(NamedTuple):
    """TF-IDF ``(N, V)`` of texts to answer, with the attributes of a ``csr_matrix``, but without scipy."""

    data: np.ndarray  # float32, the numbers of one text after those of another
    indices: np.ndarray  # int64: the column of each, ascending in a text
    indptr: np.ndarray  # int64 (N + 1,): where the numbers of each text begin
    shape: tuple[int, int]

    def row(self, number: int) -> WordRows:
        """One text."""
        own = slice(self.indptr[number], self.indptr[number + 1])
        return WordRows(self.data[own], self.indices[own], np.array([0, own.stop - own.start]), (1, self.shape[1]))

    def __matmul__(self, matrix: np.ndarray) -> np.ndarray:
        """Multiply with a matrix ``(V, r)``: ``(N, r)``."""
        present, places = np.unique(self.indices, return_inverse=True)
        of_present = np.ascontiguousarray(matrix[present])
        products = np.zeros((self.shape[0], matrix.shape[1]), np.result_type(self.data, matrix))
        for number, (start, end) in enumerate(zip(self.indptr[:-1].tolist(), self.indptr[1:].tolist(), strict=True)):
            products[number] = self.data[start:end] @ of_present[places[start:end]]
        return products


@dataclass(frozen=True, eq=False)
class Tfidf:
    """TF-IDF with the terms of ``fit_words`` and their ``idf``: that of scikit-learn, which takes seconds to import.

    There are no terms if the texts of the corpus have no words.
    """

    terms: Sequence[str]
    idf: np.ndarray  # (V,)

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of each term."""
        return {term: column for column, term in enumerate(self.terms)}

    def transform(self, texts: Sequence[str]) -> WordRows | None:
        """TF-IDF of texts; rows have norm 1, or are 0. None without terms."""
        if not self.terms:
            return None
        found = []
        for text in texts:
            columns = [self.columns[word] for word in words_of(text) if word in self.columns]
            found.append(np.unique(np.array(columns, np.int64), return_counts=True))
        indptr = np.cumsum([0, *(len(indices) for indices, _ in found)])
        indices = np.concatenate([np.zeros(0, np.int64), *(indices for indices, _ in found)])
        counts = np.concatenate([np.zeros(0, np.int64), *(counts for _, counts in found)])
        data = (np.log(counts.astype(np.float32)) + 1) * self.idf[indices].astype(np.float32, copy=False)
        text_of = np.repeat(np.arange(len(found)), np.diff(indptr))
        norms = np.sqrt(np.bincount(text_of, np.square(data), len(found)))
        data = (data / norms[text_of]).astype(np.float32)
        return WordRows(data, indices, indptr, (len(found), len(self.terms)))


class DocumentVectors(NamedTuple):
    """Transformation of texts into vectors, fitted on all texts with and without labels."""

    # Of the embeddings, (D,).
    mean: Annotated[np.ndarray, Array(("embedding",), Range(-LARGEST_VALUE, LARGEST_VALUE))]
    # Latent semantic analysis of the words, (r, V); r may be 0.
    components: Annotated[np.ndarray, Array(("latent words", "terms"), UNIT_COMPONENTS)]
    # (D + r, D + r); it divides by the root of 3e-12 at least.
    whitening: Annotated[np.ndarray, Array(("vector", "vector"), Range(-1e6, 1e6))]

    def join(self, embeddings: np.ndarray, words: sp.csr_matrix | WordRows | None) -> np.ndarray:
        """Join centered embeddings and projected words, TF-IDF ``(N, V)``, to float32 ``(N, D + r)`` of norm 1.

        Both have equal weight, and are 0 in a text without words.
        """
        centered = unit(embeddings.astype(np.float32, copy=False) - self.mean)
        of_words = np.zeros((len(embeddings), len(self.components)), np.float32)
        if words is not None and len(self.components):
            of_words = unit(words @ self.components.T)
        return unit(np.hstack([centered, of_words]))

    def embeddings_of(self, vectors: np.ndarray) -> np.ndarray:
        """Take the embeddings ``(N, D)`` out of joined vectors, of norm 1."""
        return unit(vectors[:, : len(self.mean)])

    def whitened(self, vectors: np.ndarray) -> np.ndarray:
        """Whiten vectors ``(N, D + r)``: directions in which all texts differ most are scaled down; of norm 1."""
        return unit(vectors @ self.whitening)


def fit_document_vectors(
    embeddings: np.ndarray, words: sp.csr_matrix | None, different_texts: int
) -> tuple[DocumentVectors, np.ndarray]:
    """Fit on the embeddings ``(N, D)`` and the words ``(N, V)`` of all texts; return their vectors, too.

    ``different_texts``: N, or fewer if versions of one text count as one.
    """
    mean = embeddings.mean(0, dtype=np.float64).astype(np.float32)
    fitted = DocumentVectors(mean, _latent_words(words, different_texts), np.zeros((0, 0), np.float32))
    vectors = fitted.join(embeddings, words)
    return fitted._replace(whitening=_whitening(vectors)), vectors


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to norm 1; rows of 0 stay."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)


def _latent_words(words: sp.csr_matrix | None, different_texts: int) -> np.ndarray:
    if words is None:
        return np.zeros((0, 0), np.float32)
    dimensions = min(WORD_DIMENSIONS, different_texts // TEXTS_PER_DIMENSION, words.shape[1] - 1)
    if dimensions < 1 or words.shape[0] < FEW_TEXTS:
        return np.zeros((0, words.shape[1]), np.float32)
    return _right_singular_vectors(words, dimensions)


def _right_singular_vectors(words: sp.csr_matrix, count: int) -> np.ndarray:
    """The first right singular vectors of TF-IDF ``(N, V)``, float32 ``(count, V)``.

    They are those of scikit-learn's ``TruncatedSVD`` with as many rounds (Halko, Martinsson and Tropp 2011). Here only
    products on the shorter side of the matrix are factorized between the rounds, which takes half the time.
    """
    from scipy.linalg import lu

    is_wide = words.shape[0] < words.shape[1]
    tall = words.T.tocsr() if is_wide else words
    transposed = words if is_wide else words.T.tocsr()
    size = (tall.shape[1], count + EXTRA_SINGULAR_VECTORS)
    basis = np.random.RandomState(0).normal(size=size).astype(np.float32)
    for _ in range(SINGULAR_VECTOR_ROUNDS):
        basis = lu(transposed @ (tall @ basis), permute_l=True)[0]
    found = tall @ basis
    found = found @ _orthonormal(found)
    projected = transposed @ found
    rotation = _orthonormal(projected)
    vectors = found @ (rotation / np.linalg.norm(rotation, axis=0).clip(1e-30)) if is_wide else projected @ rotation
    return np.ascontiguousarray(vectors[:, :count].T)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """Matrix ``(k, k)`` that makes columns ``(N, k)`` orthonormal, the longest first; 0 for columns of no length."""
    exact = columns.astype(np.float64)
    squares, directions = np.linalg.eigh(exact.T @ exact)
    lengths = np.sqrt(squares.clip(0))[::-1]
    scale = np.where(lengths > LEAST_LENGTH * lengths[0], 1 / lengths.clip(1e-30), 0)
    return (directions[:, ::-1] * scale).astype(np.float32)


def _whitening(vectors: np.ndarray) -> np.ndarray:
    """The inverse root of the covariance C after shrinkage: ``(C + 3 mean(diag C) I)^(-1/2)``."""
    centered = vectors - vectors.mean(0)
    variances, directions = np.linalg.eigh((centered.T @ centered).astype(np.float64) / max(len(vectors) - 1, 1))
    scale = np.maximum(variances, 0) + SHRINKAGE * max(variances.mean(), 1e-12)
    return (directions * scale**-0.5).astype(np.float32)
