"""TF-IDF of words, in scripts with and without spaces.

The system ``tfidf`` of ``docsplit evaluate`` is another one: it also counts pairs of words, and splits scripts without
spaces into single characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...text.characters import replace_lone_surrogates

if TYPE_CHECKING:
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

MAX_TERMS = 30_000
MAX_CHARACTERS = 2**20  # of a text, about the length of a long book; the rest is ignored
FEW_TEXTS = 200  # with fewer, rare and frequent words are kept, and vectors have no dimensions from words
# Thai, Lao, Khmer, Burmese, Japanese and Chinese: pairs of neighboring characters are used as words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_SPACED_WORD = re.compile(r"\w\w+")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]{{2,}}")


def words_of(text: str) -> list[str]:
    """Split a text into lowercase words; in scripts without spaces, into pairs of neighboring characters."""
    text = text[:MAX_CHARACTERS].lower()
    if not _HAS_UNSPACED.search(text):
        return _SPACED_WORD.findall(text)
    words: list[str] = []
    for run in _RUN.findall(text):
        pairs = [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
        words += pairs if _HAS_UNSPACED.match(run) else [run]
    return words


def fit_words(texts: Sequence[str]) -> tuple[TfidfVectorizer, sp.csr_matrix] | None:
    """Fit TF-IDF on texts: the vectorizer, and float32 ``(N, V)``; None if the texts have no words."""
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
        return None
    counts.sort_indices()  # the order of TfidfVectorizer.transform
    transformer = TfidfTransformer(sublinear_tf=True)  # TfidfVectorizer would split all texts a second time
    words = transformer.fit_transform(counts)
    return restore_vectorizer(counter.get_feature_names_out().tolist(), transformer.idf_), words


def restore_vectorizer(terms: Sequence[str], idf: np.ndarray) -> TfidfVectorizer | None:
    """Restore the vectorizer of ``fit_words`` from its terms and their ``idf_``; None without terms."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not terms:
        return None
    vectorizer = TfidfVectorizer(analyzer=words_of, sublinear_tf=True, dtype=np.float32, vocabulary=list(terms))
    vectorizer.idf_ = idf
    return vectorizer
