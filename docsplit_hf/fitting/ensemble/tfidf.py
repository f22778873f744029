"""TF-IDF of words, in scripts with and without spaces.

The system ``tfidf`` of ``docsplit evaluate`` is another one: it also counts pairs of words, and splits scripts without
spaces into single characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...reading.characters import replace_lone_surrogates
from ...reading.words import words_of

if TYPE_CHECKING:
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

MAX_TERMS = 30_000
FEW_TEXTS = 200  # with fewer, rare and frequent words are kept, and vectors have no dimensions from words


def fit_words(texts: Sequence[str]) -> tuple[list[str], np.ndarray, sp.csr_matrix | None]:
    """Fit TF-IDF on texts: terms, their ``idf_`` ``(V,)``, and float32 ``(N, V)``; None if the texts have no words."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    has_few_texts = len(texts) < FEW_TEXTS
    counter = CountVectorizer(
        analyzer=words_of,
        dtype=np.float32,
        min_df=1 if has_few_texts else 2,
        max_df=1.0 if has_few_texts else 0.5,
        max_features=MAX_TERMS,
    )
    try:
        counts = counter.fit_transform([replace_lone_surrogates(text) for text in texts])
    except ValueError:  # of scikit-learn, if no word is left
        return [], np.zeros(0, np.float32), None
    counts.sort_indices()  # the order of TfidfVectorizer.transform
    transformer = TfidfTransformer(sublinear_tf=True)  # TfidfVectorizer would split all texts a second time
    words = transformer.fit_transform(counts)
    return counter.get_feature_names_out().tolist(), transformer.idf_, words


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

    scipy would copy the whole matrix, which takes longer than everything else for a few texts. So only the columns of
    words that the texts have are multiplied, in the same order, which changes no bit.
    """
    import scipy.sparse as sp

    if words.nnz > matrix.shape[1]:
        return np.asarray(words @ matrix.T)
    present, places = np.unique(words.indices, return_inverse=True)
    compact = sp.csr_matrix((words.data, places, words.indptr), shape=(words.shape[0], len(present)))
    return np.asarray(compact @ matrix[:, present].T)
