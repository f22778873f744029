"""What the experiments compare: encoders, and the word counts that they have to beat."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from ...models.inference.encoder import DocumentEncoder
from ...models.inference.encoder_names import split_name
from ...models.inference.long_documents.strategies import SEVERAL_VECTORS
from ...models.inference.passages import Passages
from .embedding_cache import cached_embeddings, cached_passages
from .encoders import EncoderWithOptions, TextEncoder, load_encoder
from .features import Features, mean_of_passages

# Words of two characters and more, as in scikit-learn, and each Chinese or Japanese character by itself: these scripts
# put no spaces between words, and pairs of characters do nearly as well there as words.
_CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORDS = rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]{{2,}}"
MAX_FEATURES = 50_000  # the most frequent ones; the first layer of a probe has as many rows


class System(Protocol):
    """What turns the texts of a task into features."""

    name: str  # as in the tables
    fingerprint: str

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Features of the training texts and of each other list of texts, ``(N, D)``, float32 and dense, or sparse.

        What has to be fitted is fitted on the training texts: never on labels, never on the others.
        """


class EncoderSystem:
    """An encoder, whose embeddings are computed once and kept in ``cache_folder``; it must not change afterwards."""

    def __init__(self, name: str, encoder: TextEncoder, cache_folder: str | Path | None = None) -> None:
        self.name = name
        self.encoder = encoder
        self.cache_folder = cache_folder

    @cached_property
    def fingerprint(self) -> str:
        return self.encoder.fingerprint

    @property
    def gives_passages(self) -> bool:
        """Whether a text has several embeddings."""
        return getattr(self.encoder, "options", {}).get("long_documents") in SEVERAL_VECTORS

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """The embeddings of the training texts and of each other list of texts: float32 ``(N, D)``, of norm 1.

        Of passages it is their mean, weighted by their characters.
        """
        if self.gives_passages:
            return [mean_of_passages(passages) for passages in self.passages(train, *others)]
        return self._embed(cached_embeddings, train, *others)

    def passages(self, *lists: Sequence[str]) -> list[Passages]:
        """The passages of each list of texts."""
        return self._embed(cached_passages, *lists)

    def _embed(self, embed: Callable[..., Any], *lists: Sequence[str]) -> list[Any]:
        total = sum(len(texts) for texts in lists)
        with tqdm(total=total, desc=f"Embedding by {self.name}", unit="text") as progress:
            return [embed(self.encoder, texts, self.cache_folder, progress.update) for texts in lists]

    def reading(self, strategies: Sequence[str]) -> list[EncoderSystem]:
        """The system once for each way to read long documents, with one encoder in memory."""
        encoder = self.encoder
        inner, options = getattr(encoder, "encoder", encoder), getattr(encoder, "options", {"bf16": False})
        if not isinstance(inner, DocumentEncoder):  # an endpoint reads as it does
            return [self]
        readers = [EncoderWithOptions(inner, **options | {"long_documents": name}) for name in strategies]
        pairs = zip(strategies, readers, strict=True)
        return [EncoderSystem(f"{self.name} ({name})", reader, self.cache_folder) for name, reader in pairs]


class TfidfSystem:
    """TF-IDF of words and pairs of words: not in the papers, and hard to beat on long documents, which it reads whole.

    As good as it gets without tuning on a task: logarithmic term frequency, the 50,000 most frequent features.
    """

    def __init__(self, name: str = "tfidf") -> None:
        self.name = name
        self.fingerprint = f"tfidf 1, words and pairs, {MAX_FEATURES} features, {WORDS}"

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """TF-IDF vectors, sparse float32 ``(N, D)``, of norm 1; 0 where no word of a text is in the training texts."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            sublinear_tf=True, ngram_range=(1, 2), max_features=MAX_FEATURES, token_pattern=WORDS, dtype=np.float32
        )
        return [vectorizer.fit_transform(train), *(vectorizer.transform(texts) for texts in others)]


class BM25System:
    r"""BM25 as a similarity of two documents: features whose dot product is the score.

    Okapi BM25 with the saturation of the query's term frequencies, where the query is a document like the other:

    .. math:: s(a, b) = \sum_t \mathrm{idf}(t) \, w(t, a) \, w(t, b),
        \quad w(t, d) = \frac{(k_1 + 1) f(t, d)}{f(t, d) + k_1 (1 - b + b |d| / \overline{|d|})}

    with k1 = 1.2, b = 0.75 and Lucene's idf, ln(1 + (n - n_t + 0.5) / (n_t + 0.5)), which is never negative. So the
    score is symmetric, and each side is one vector, sqrt(idf) w. A search engine's BM25 counts the words of its short
    query without saturation instead; for two documents that would favor the longer query. Words that are not in the
    training texts count nowhere. Where the experiments take cosines, it becomes s(a, b) / sqrt(s(a, a) s(b, b)).
    """

    k1 = 1.2
    b = 0.75

    def __init__(self, name: str = "bm25") -> None:
        self.name = name
        self.fingerprint = f"bm25 1, k1 {self.k1}, b {self.b}, {MAX_FEATURES} features, {WORDS}"

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Vectors of which the dot product is BM25, sparse float32 ``(N, D)``."""
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(max_features=MAX_FEATURES, token_pattern=WORDS, dtype=np.float32)
        counts = [vectorizer.fit_transform(train), *(vectorizer.transform(texts) for texts in others)]
        documents_with = np.bincount(counts[0].indices, minlength=counts[0].shape[1])
        idf = np.log1p((len(train) - documents_with + 0.5) / (documents_with + 0.5))
        mean_length = counts[0].sum() / len(train)
        return [self._weigh(part.tocsr(), np.sqrt(idf), mean_length) for part in counts]

    def _weigh(self, counts: sparse.csr_matrix, weights: np.ndarray, mean_length: float) -> sparse.csr_matrix:
        lengths = np.asarray(counts.sum(1)).ravel() / mean_length
        norms = np.repeat(self.k1 * (1 - self.b + self.b * lengths), np.diff(counts.indptr))
        saturated = (self.k1 + 1) * counts.data / (counts.data + norms)
        data = (saturated * weights[counts.indices]).astype(np.float32)
        return sparse.csr_matrix((data, counts.indices, counts.indptr), shape=counts.shape)


WORD_COUNTS = {"tfidf": TfidfSystem, "bm25": BM25System}


def load_system(
    name: str,
    cache_folder: str | Path | None = None,
    max_length: int | None = None,
    bf16: bool = False,
    long_documents: str = "first",
) -> System:
    """Load ``"tfidf"``, ``"bm25"``, or an encoder by a name that ``load_encoder`` knows, and the other arguments go to.

    ``"...#name=DocSplit"`` gives any of them another name in the tables.
    """
    base, options = split_name(name)
    shown = options.pop("name", None)
    if base in WORD_COUNTS:
        if options:
            raise ValueError(f"{name!r}: {base} has no options but name.")
        return WORD_COUNTS[base](shown or base)
    near = difflib.get_close_matches(base.lower(), WORD_COUNTS, n=1)
    if near and not Path(base).exists():
        raise ValueError(f"There is no system {base!r}. Did you mean {near[0]!r}?")
    without_name = "#".join(part for part in name.split("#") if part.partition("=")[0].strip() != "name")
    try:
        encoder = load_encoder(without_name, max_length, bf16, long_documents)
    except OSError as error:
        raise OSError(
            f"{error} A system is {', '.join(WORD_COUNTS)}, a folder, a model on the Hub or "
            "'https://HOST/v1#MODEL' for an endpoint."
        ) from error
    return EncoderSystem(shown or name, encoder, cache_folder)
