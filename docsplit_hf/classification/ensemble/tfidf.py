"""The words of texts as TF-IDF, in scripts with and without spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...text.characters import replace_lone_surrogates

if TYPE_CHECKING:
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

MOST_TERMS = 30_000
MOST_CHARACTERS = 2**20  # of a text, a long book: what comes after changes its words little
FEW_TEXTS = 200  # below them a word that only one text has is kept, and words make no dimensions of vectors
# Thai, Lao, Khmer, Burmese, Japanese and Chinese: the pairs of neighboring characters stand for words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_SPACED_WORD = re.compile(r"\w\w+")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]{{2,}}")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; of a script without spaces, the pairs of neighboring characters."""
    text = text[:MOST_CHARACTERS].lower()
    if not _HAS_UNSPACED.search(text):
        return _SPACED_WORD.findall(text)
    words: list[str] = []
    for run in _RUN.findall(text):
        pairs = [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
        words += pairs if _HAS_UNSPACED.match(run) else [run]
    return words


def fit_words(texts: Sequence[str]) -> tuple[TfidfVectorizer, sp.csr_matrix] | None:
    """The vocabulary of texts and how rare its words are, and their TF-IDF; None if there is no word in them."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    least = 1 if len(texts) < FEW_TEXTS else 2
    options = {"min_df": least, "max_df": 1.0 if least == 1 else 0.5, "max_features": MOST_TERMS}
    counter = CountVectorizer(analyzer=words_of, dtype=np.float32, **options)
    try:
        counts = counter.fit_transform([replace_lone_surrogates(text) for text in texts])
    except ValueError:  # scikit-learn's way to say that no word is left
        return None
    counts.sort_indices()  # as TfidfVectorizer.transform has them, which would find all words a second time
    weighing = TfidfTransformer(sublinear_tf=True)
    words = weighing.fit_transform(counts)
    return saved_words(counter.get_feature_names_out().tolist(), weighing.idf_), words


def saved_words(terms: Sequence[str], idf: np.ndarray) -> TfidfVectorizer | None:
    """``fit_words`` again, from its terms in order and their ``idf_``."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not terms:
        return None
    vectorizer = TfidfVectorizer(analyzer=words_of, sublinear_tf=True, dtype=np.float32, vocabulary=list(terms))
    vectorizer.idf_ = idf
    return vectorizer
