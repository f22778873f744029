"""Corpus: all texts of a datastore that experts are fitted on, in an order that depends on nothing but themselves."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...text.characters import replace_lone_surrogates
from ..store.row_table import joined_texts
from .document_vectors import DocumentVectors, fit_document_vectors
from .soft_labels import neighbor_graph
from .words import fit_words

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

    from ..store.snapshot import Snapshot


logger = logging.getLogger(__name__)

MOST_DOCUMENTS = 100_000
MOST_TEXTS = 30_000  # some 200 MB


class Corpus(NamedTuple):
    """N texts, of which n are examples, as the experts see them."""

    rows: np.ndarray  # int64 (n,): where the examples are, in their own order
    documents: np.ndarray  # int64 (m,): where the documents are; -1 of those that are left out
    contents: np.ndarray  # int64 (N,), ascending: of a text and its key
    ids: np.ndarray  # int64 (N,): of the rows in the datastore
    vectorizer: TfidfVectorizer | None  # None where no texts are kept, or no words are in them
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    document_vectors: DocumentVectors
    vectors: np.ndarray  # (N, D + r), of norm 1
    whitened: np.ndarray
    graph: sp.csr_array


def make_corpus(snapshot: Snapshot, before: Corpus | None = None) -> Corpus:
    """The corpus of a datastore; of more than 100,000 documents a random sample, always the same.

    Whether a text has a label changes nothing but ``rows``, so all else is that of the corpus ``before`` where this has
    the same texts.
    """
    import pyarrow as pa

    keys, rows, documents = [snapshot.keys], [snapshot.rows], snapshot.documents
    kept = np.zeros(0, bool)
    if documents is not None:
        kept = np.ones(len(documents.keys), bool)
        if len(kept) > MOST_DOCUMENTS:
            kept[:] = False
            kept[np.random.default_rng(0).choice(len(kept), MOST_DOCUMENTS, replace=False)] = True
            logger.warning("Of %d documents, a random %d are used.", len(kept), MOST_DOCUMENTS)
        keys, rows = [*keys, documents.keys[kept]], [*rows, rows_of(documents.rows, np.flatnonzero(kept))]
    embeddings, texts = np.concatenate(keys), texts_in(pa.concat_tables(rows))
    contents = _content_numbers(texts, embeddings)
    order = np.argsort(contents, kind="stable")
    contents, embeddings = contents[order], embeddings[order].astype(np.float32, copy=False)
    ids = np.concatenate([id_numbers(*pair) for pair in zip(rows, keys, strict=True)])[order]
    places = np.argsort(order, kind="stable")
    examples, left = places[: len(snapshot.keys)], np.full(len(kept), -1)
    left[kept] = places[len(snapshot.keys) :]
    if before is not None and np.array_equal(before.contents, contents):
        return before._replace(rows=examples, documents=left, ids=ids)
    vectorizer, words = fit_words([texts[i] for i in order]) or (None, None)
    fitted = fit_document_vectors(embeddings, words)
    vectors = fitted.join(embeddings, fitted.of_words(words, len(embeddings)))
    views = (vectorizer, words, fitted, vectors, fitted.whitened(vectors))
    return Corpus(examples, left, contents, ids, *views, neighbor_graph(vectors))


def texts_in(table: pa.Table) -> list[str]:
    """The texts of rows, those of a pair joined."""
    return joined_texts(table["text"].to_pylist(), table["text_pair"].to_pylist())


def rows_of(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Some rows, in their order. Not ``Table.take``, for which Arrow joins all texts: it fails beyond 2 GiB."""
    import pyarrow as pa

    return table.filter(pa.array(np.isin(np.arange(len(table)), rows)))


def _content_numbers(texts: Sequence[str], keys: np.ndarray) -> np.ndarray:
    """An int64 for each text with its key."""
    both = ((replace_lone_surrogates(text).encode(), key.tobytes()) for text, key in zip(texts, keys, strict=True))
    digests = b"".join(hashlib.blake2b(text + key, digest_size=8).digest() for text, key in both)
    return np.frombuffer(digests, dtype=np.int64)


def id_numbers(rows: pa.Table, keys: np.ndarray) -> np.ndarray:
    """An int64 for each row, of its id and its key: an id may be given to another text."""
    both = zip(rows["id"].to_pylist(), keys, strict=True)
    digests = b"".join(hashlib.blake2b(row_id.encode() + key.tobytes(), digest_size=8).digest() for row_id, key in both)
    return np.frombuffer(digests, dtype=np.int64)


class KeptCorpus:
    """Makes the corpus of a snapshot, or takes the last one, where only labels have changed."""

    def __init__(self) -> None:
        self._last: Corpus | None = None

    def make(self, snapshot: Snapshot) -> Corpus:
        """As ``make_corpus``."""
        corpus = make_corpus(snapshot, self._last)
        self._last = corpus if len(corpus.ids) <= MOST_TEXTS else None
        return corpus
