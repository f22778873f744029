"""Corpus: all texts of a datastore that experts are fitted on, in an order that depends on nothing but themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...content_hash import short_digest
from ...text.characters import replace_lone_surrogates
from ..store.index import ROWS_PER_CENTROID, approximate_search, build_index, set_nprobe
from ..store.keys import exact_search
from ..store.row_table import rows_at
from ..texts_and_labels import joined_texts
from .words import FEW_TEXTS, fit_words

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

    from ..store.snapshot import Snapshot

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

    def join(self, embeddings: np.ndarray, words: sp.csr_matrix | None) -> np.ndarray:
        """Float32 ``(N, D + r)`` of norm 1: the embedding less the mean, and the words, which count alike."""
        centered = unit(embeddings.astype(np.float32, copy=False) - self.mean)
        return unit(np.hstack([centered, self.of_words(words, len(embeddings))]))

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
    return vectors._replace(whitening=_whitening(vectors.join(embeddings, words)))


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


GRAPH_NEIGHBORS = 10
EXACT_GRAPH = 20_000  # texts; the time that an exact graph takes grows with their square
LISTS, NPROBE = 1024, 16
PAIRS_AT_ONCE = 65_536
ALPHA, STEPS = 0.9, 40


def neighbor_graph(vectors: np.ndarray, k: int = GRAPH_NEIGHBORS) -> sp.csr_array:
    """The k nearest texts to each ``(N, D)`` by cosine c: ``D^(-1/2) A D^(-1/2)``, A symmetric, of ``max(c, 0)^2``."""
    import scipy.sparse as sp

    count, k = len(vectors), min(k, len(vectors) - 1)
    if k < 1:
        return sp.csr_array((count, count), dtype=np.float32)
    found = nearest_rows(vectors, k + 1)
    rows, columns = np.repeat(np.arange(count), k + 1), found.ravel()
    others = (columns != rows) & (columns >= 0)
    rows, columns = rows[others], columns[others]
    parts = [slice(start, start + PAIRS_AT_ONCE) for start in range(0, len(rows), PAIRS_AT_ONCE)]
    cosines = np.concatenate([np.einsum("nd,nd->n", vectors[rows[part]], vectors[columns[part]]) for part in parts])
    graph = sp.csr_array((np.square(cosines.clip(0)), (rows, columns)), (count, count))
    graph = graph.maximum(graph.T)
    scale = sp.diags_array(np.maximum(graph.sum(1), 1e-9) ** -0.5)
    return (scale @ graph @ scale).tocsr().astype(np.float32)


def nearest_rows(vectors: np.ndarray, k: int) -> np.ndarray:
    """The k nearest of all texts to each, itself among them, int64 ``(N, k)``; -1 where an index found too few."""
    if len(vectors) <= EXACT_GRAPH:
        return exact_search(vectors, vectors, k)[1]
    index = build_index(vectors, f"IVF{min(LISTS, len(vectors) // ROWS_PER_CENTROID)},Flat")
    set_nprobe(index, NPROBE)
    return approximate_search(index, vectors, k)


def spread_labels(graph: sp.csr_array, rows: np.ndarray, targets: np.ndarray, several: bool) -> np.ndarray:
    """Soft labels of all N texts, float32 ``(N, C)``, from ``targets`` ``(n, C)``, 0 or 1, of the texts ``rows``.

    ``F = 0.9 S F + 0.1 Y``, 40 times. With one label per text, each label is given the same mass in all, and each text
    a distribution. With several, F says which share of the examples that reach a text have the label. A text that no
    example reaches has all labels alike, or as often as the examples have them. Examples keep their own.
    """
    given = np.hstack([targets, np.ones((len(targets), 1))]) if several else targets
    start = np.zeros((graph.shape[0], given.shape[1]), np.float32)
    start[rows] = given
    spread = start
    for _ in range(STEPS):
        spread = ALPHA * (graph @ spread) + (1 - ALPHA) * start
    if several:
        reached, base = spread[:, -1:], targets.mean(0, keepdims=True)
        soft = np.where(reached > 0, spread[:, :-1] / np.maximum(reached, 1e-30), base).clip(0, 1)
    else:
        balanced = spread / np.maximum(spread.sum(0), 1e-30)
        mass = balanced.sum(1, keepdims=True)
        soft = np.where(mass > 0, balanced / np.maximum(mass, 1e-30), 1 / targets.shape[1])
    soft[rows] = targets
    return soft.astype(np.float32)


logger = logging.getLogger(__name__)

MOST_DOCUMENTS = 20_000
MOST_TEXTS = 30_000  # some 200 MB


class Corpus(NamedTuple):
    """N texts, of which n are examples, as the experts see them."""

    rows: np.ndarray  # int64 (n,): where the examples are, in their own order
    documents: np.ndarray  # int64 (m,): where the documents are; -1 of those that are left out
    contents: np.ndarray  # int64 (N,): of a text and its key, in the canonical order
    ids: np.ndarray  # int64 (N,): of the rows in the datastore
    vectorizer: TfidfVectorizer | None  # None where no texts are kept, or no words are in them
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    document_vectors: DocumentVectors
    vectors: np.ndarray  # (N, D + r), of norm 1
    whitened: np.ndarray
    graph: sp.csr_array


def make_corpus(snapshot: Snapshot, before: Corpus | None = None) -> Corpus:
    """The corpus of a datastore; of more than 20,000 documents a random sample, always the same.

    Whether a text has a label changes nothing but ``rows``, so all else is that of the corpus ``before`` where this has
    the same texts.
    """
    import pyarrow as pa

    keys, rows, documents = [snapshot.keys], [snapshot.rows], snapshot.documents
    kept = np.zeros(0, bool)
    if documents is not None:
        kept = _sample(documents, MOST_DOCUMENTS)
        if not kept.all():
            logger.warning("Of %d documents, a random %d are used.", len(kept), MOST_DOCUMENTS)
        keys, rows = [*keys, documents.keys[kept]], [*rows, rows_at(documents.rows, np.flatnonzero(kept))]
    embeddings, texts = np.concatenate(keys), texts_in(pa.concat_tables(rows))
    contents = _content_numbers(texts, embeddings)
    order = _canonical_order(texts, contents)
    contents = contents[order]
    embeddings = embeddings[order].astype(np.float32, copy=False)
    ids = np.concatenate([id_numbers(*pair) for pair in zip(rows, keys, strict=True)])[order]
    places = np.argsort(order, kind="stable")
    examples, left = places[: len(snapshot.keys)], np.full(len(kept), -1)
    left[kept] = places[len(snapshot.keys) :]
    if before is not None and np.array_equal(before.contents, contents):
        return before._replace(rows=examples, documents=left, ids=ids)
    vectorizer, words = fit_words([texts[i] for i in order]) or (None, None)
    fitted = fit_document_vectors(embeddings, words)
    vectors = fitted.join(embeddings, words)
    views = (vectorizer, words, fitted, vectors, fitted.whitened(vectors))
    return Corpus(examples, left, contents, ids, *views, neighbor_graph(vectors))


def texts_in(table: pa.Table) -> list[str]:
    """The texts of rows, those of a pair joined."""
    return joined_texts(table["text"].to_pylist(), table["text_pair"].to_pylist())


def id_numbers(rows: pa.Table, keys: np.ndarray) -> np.ndarray:
    """An int64 for each row, of its id and its key: an id may be given to another text."""
    return _numbers(rows["id"].to_pylist(), keys)


def _sample(documents: Snapshot, most: int) -> np.ndarray:
    """Which documents to use, bool ``(m,)``: all, or those with the smallest checksums, whatever their order."""
    kept = np.ones(len(documents.keys), bool)
    if len(kept) <= most:
        return kept
    texts = texts_in(documents.rows)
    order = _canonical_order(texts, _content_numbers(texts, documents.keys))
    kept[order[most:]] = False
    return kept


def _canonical_order(texts: Sequence[str], contents: np.ndarray) -> np.ndarray:
    """Places ``(N,)`` sorted by a checksum of the text, equal texts by ``contents``.

    The text goes first because another processor rounds embeddings otherwise: it must not draw other folds.
    """
    numbers = np.zeros(len(texts), np.int64)
    for place, text in enumerate(texts):
        digest = short_digest(replace_lone_surrogates(text).encode())
        numbers[place] = int.from_bytes(digest, "big", signed=True)
    return np.lexsort((contents, numbers))


def _content_numbers(texts: Sequence[str], keys: np.ndarray) -> np.ndarray:
    """An int64 for each text with its key."""
    return _numbers((replace_lone_surrogates(text) for text in texts), keys)


def _numbers(texts: Iterable[str], keys: np.ndarray) -> np.ndarray:
    both = (text.encode() + key.tobytes() for text, key in zip(texts, keys, strict=True))
    return np.frombuffer(b"".join(short_digest(one) for one in both), dtype=np.int64)


class KeptCorpus:
    """Makes the corpus of a snapshot, or takes the last one, where only labels have changed."""

    def __init__(self) -> None:
        self._last: Corpus | None = None

    def make(self, snapshot: Snapshot) -> Corpus:
        """As ``make_corpus``."""
        corpus = make_corpus(snapshot, self._last)
        self._last = corpus if len(corpus.ids) <= MOST_TEXTS else None
        return corpus
