"""TF-IDF of words, in scripts with and without spaces.

The system ``tfidf`` of ``docsplit evaluate`` is another one: it also counts pairs of words, and splits scripts without
spaces into single characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...reading.words import NumberedWords, words_of

if TYPE_CHECKING:
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

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
    kept = np.flatnonzero(_are_terms(np.bincount(counts.indices, minlength=len(alphabetical)), texts))
    if not len(kept):
        return [], np.zeros(0, np.float32), None
    frequencies = counts.sum(0).A1[kept]
    kept = np.sort(kept[(-frequencies).argsort()[:MAX_TERMS]]) if len(kept) > MAX_TERMS else kept
    transformer = TfidfTransformer(sublinear_tf=True)
    weights = transformer.fit_transform(counts[:, kept])
    return [words.vocabulary[alphabetical[column]] for column in kept], transformer.idf_, weights


def _are_terms(holders: np.ndarray, texts: int) -> np.ndarray:
    """Whether words with so many ``holders`` ``(V,)`` among the texts are terms; most are, if the texts are few."""
    return holders > 0 if texts < FEW_TEXTS else (holders >= 2) & (holders <= texts / 2)


def restore_vectorizer(terms: Sequence[str], idf: np.ndarray) -> TfidfVectorizer | None:
    """Restore the vectorizer of ``fit_words`` from its terms and their ``idf_``; None without terms."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not terms:
        return None
    vectorizer = TfidfVectorizer(analyzer=words_of, sublinear_tf=True, dtype=np.float32, vocabulary=list(terms))
    vectorizer.idf_ = idf
    return vectorizer


def times_transposed(words: sp.csr_matrix, matrix: np.ndarray) -> np.ndarray:
    """Multiply ``words @ matrix.T``, of TF-IDF ``(N, V)`` and a matrix ``(r, V)``: ``(N, r)``.

    scipy would copy the whole matrix, which takes longer than everything else for a few texts. So for these, only the
    columns of words that they have are multiplied, in the same order, which changes no bit.
    """
    import scipy.sparse as sp

    if words.nnz > matrix.shape[1]:
        return np.asarray(words @ matrix.T)
    present, places = np.unique(words.indices, return_inverse=True)
    compact = sp.csr_matrix((words.data, places, words.indptr), shape=(words.shape[0], len(present)))
    return np.asarray(compact @ matrix[:, present].T)
