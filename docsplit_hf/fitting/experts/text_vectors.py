"""TF-IDF of words, in scripts with and without spaces.

The system ``tfidf`` of ``docsplit evaluate`` is another one: it also counts pairs of words, and splits scripts without
spaces into single characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...reading.words import NumberedWords, words_of

if TYPE_CHECKING:
    import scipy.sparse as sp

MAX_TERMS = 30_000
FEW_TEXTS = 200  # with fewer, rare and frequent words are kept, and vectors have no dimensions from words


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

    def times_transposed(self, matrix: np.ndarray) -> np.ndarray:
        """Multiply with the transpose of a matrix ``(r, V)``: ``(N, r)``."""
        present, places = np.unique(self.indices, return_inverse=True)
        columns = np.ascontiguousarray(matrix[:, present].T)
        products = np.zeros((self.shape[0], len(matrix)), np.result_type(self.data, matrix))
        for number, (start, end) in enumerate(zip(self.indptr[:-1].tolist(), self.indptr[1:].tolist(), strict=True)):
            products[number] = self.data[start:end] @ columns[places[start:end]]
        return products


@dataclass(frozen=True, eq=False)
class Tfidf:
    """TF-IDF with the terms of ``fit_words`` and their ``idf``: that of scikit-learn, which takes seconds to import."""

    terms: Sequence[str]
    idf: np.ndarray  # (V,)

    @cached_property
    def columns(self) -> dict[str, int]:
        """The column of each term."""
        return {term: column for column, term in enumerate(self.terms)}

    def transform(self, texts: Sequence[str]) -> WordRows:
        """TF-IDF of texts; rows have norm 1, or are 0."""
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


def times_transposed(words: sp.csr_matrix | WordRows, matrix: np.ndarray) -> np.ndarray:
    """Multiply ``words @ matrix.T``, of TF-IDF ``(N, V)`` and a matrix ``(r, V)``: ``(N, r)``."""
    return words.times_transposed(matrix) if isinstance(words, WordRows) else np.asarray(words @ matrix.T)
