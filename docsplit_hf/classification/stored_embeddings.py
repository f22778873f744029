"""Embeddings of texts, some of which are documents of the datastore: their stored ones are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..datastore.duplicates import rows_of_texts
from ..encoders.text_embedder import Predictions

if TYPE_CHECKING:
    from ..datastore.store import View
    from ..encoders.text_embedder import TextEmbedder

DOCUMENTS_PER_TEXT = 100  # among more, finding a text takes longer than embedding it


def read_new(embedder: TextEmbedder, view: View, texts: Sequence[str], text_pairs: Sequence[str | None]) -> Predictions:
    """Predictions of an embedder without a head for N texts; embeddings of texts among the documents are reused."""
    if not 0 < view.count("documents") <= DOCUMENTS_PER_TEXT * len(texts):
        return embedder.embed(texts, text_pairs)
    documents = view.get(texts, text_pairs).documents
    rows = rows_of_texts(documents.rows, texts, text_pairs)
    new = np.flatnonzero(rows < 0)
    if len(new) == len(texts):
        return embedder.embed(texts, text_pairs)
    embeddings = np.empty((len(texts), documents.keys.shape[1]), dtype=np.float32)
    embeddings[rows >= 0] = documents.keys[rows[rows >= 0]]
    if len(new):
        read = embedder.embed([texts[i] for i in new], [text_pairs[i] for i in new])
        embeddings[new] = read.retrieval_embeddings
    return Predictions(np.empty((len(texts), 0), dtype=np.float32), embeddings)
