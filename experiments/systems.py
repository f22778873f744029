"""Systems beside those of the package: encoders with several embeddings of a text, and BM25."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from docsplit_hf.arrays.passages import Passages
from docsplit_hf.encoding.chunking import PASSAGES
from docsplit_hf.encoding.document_encoder import DocumentEncoder
from docsplit_hf.evaluation.systems import MAX_FEATURES, WORDS, EncoderWithOptions, Features, System

from .evaluation.systems import SYSTEMS_WITHOUT_ENCODER, EncoderSystem


def document_encoder(system: System) -> DocumentEncoder | None:
    """The encoder of a system with local weights; None for word counts and endpoints."""
    encoder = system.encoder if isinstance(system, EncoderSystem) else None
    if isinstance(encoder, EncoderWithOptions):
        encoder = encoder.encoder
    return encoder if isinstance(encoder, DocumentEncoder) else None


def encoding_options(system: System) -> dict[str, Any]:
    """The options given to ``DocumentEncoder.encode``, ``bf16`` and ``long_documents``; empty without an encoder."""
    return getattr(getattr(system, "encoder", None), "options", {})


def with_passages(system: System) -> System:
    """The system as a ``PassageSystem`` if it splits long documents into passages, else unchanged."""
    if encoding_options(system).get("long_documents") == PASSAGES:
        return PassageSystem(system.name, system.encoder, system.cache_folder)
    return system


class PassageSystem(EncoderSystem):
    """An encoder with several embeddings of a text; its features are their mean, weighted by their characters."""

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        return [mean_of_passages(passages) for passages in self.passages(train, *others)]

    def passages(self, *lists: Sequence[str]) -> list[Passages]:
        """The passages of each list of texts."""
        return self.embed_lists(embed_passages, *lists)


def embed_passages(
    encoder: EncoderWithOptions,
    texts: Sequence[str],
    folder: str | Path | None,
    on_done: Callable[[int], Any] = lambda number: None,
) -> Passages:
    """The passage embeddings of each text; they are not cached in the folder."""
    passages = encoder.encoder.encode_passages(texts, show_progress=False, bf16=encoder.options["bf16"])
    on_done(len(texts))
    return passages


def mean_of_passages(passages: Passages) -> np.ndarray:
    """One embedding of norm 1 for each text, float32 ``(N, D)``: the mean, weighted by the passages' characters."""
    weights = np.maximum(np.diff(passages.spans, axis=1), 1).astype(np.float32)
    starts = np.cumsum(passages.counts) - passages.counts
    return normalize(np.add.reduceat(passages.embeddings * weights, starts))


def rows_of_passages(passages: Passages) -> np.ndarray:
    """The vectors of each text, ``(N,)`` arrays ``(p, D)``; rows are selected as in any other features."""
    rows = np.empty(len(passages.counts), dtype=object)
    rows[:] = np.split(passages.embeddings, np.cumsum(passages.counts)[:-1])
    return rows


class BM25System:
    r"""BM25 as a similarity of two documents: the dot product of the features is the score.

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
        """Vectors with BM25 as their dot product, sparse float32 ``(N, D)``."""
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


ALL_SYSTEMS_WITHOUT_ENCODER = {**SYSTEMS_WITHOUT_ENCODER, "bm25": BM25System}
