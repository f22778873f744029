"""Places of a store's documents in the corpus that was fitted; only documents with a place vote."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.row_table import rows_at
from .corpus import id_numbers

if TYPE_CHECKING:
    from ...datastore.snapshot import SearchResult
    from ...datastore.store import View

NO_IDS = np.zeros(0, np.int64)


class DocumentPlaces(NamedTuple):
    """Places of documents in the corpus, -1 of documents that came later."""

    of_all: np.ndarray | None  # int64 (m,): of all documents; None if they are on a server
    later: int  # number of documents that came later; on a server, at least so many
    corpus_ids: np.ndarray = NO_IDS  # int64 (N,): hashes of the texts of the corpus, for documents on a server

    @classmethod
    def known(cls, places: np.ndarray) -> DocumentPlaces:
        """The places of all documents, int64 ``(m,)``."""
        return cls(places, later=int(np.count_nonzero(places < 0)))

    def of(self, documents: SearchResult) -> np.ndarray:
        """The places of documents that were found, int64 ``(Q, k)``."""
        if self.of_all is not None:
            return self.of_all[documents.rows]
        rows, where = np.unique(documents.rows, return_inverse=True)
        numbers = id_numbers(rows_at(documents.table, rows), documents.keys[rows])
        return _places_of_ids(numbers, self.corpus_ids)[where].reshape(documents.rows.shape)


def places_of_documents(view: View, corpus_ids: np.ndarray, fitted_documents: int = 0) -> DocumentPlaces:
    """Find the places of a store's documents in the corpus.

    Args:
        view: The state of the store.
        corpus_ids: Hashes of the texts of the corpus, int64 ``(N,)``.
        fitted_documents: How many documents were fitted; by it those that came later are counted on a server.

    Returns:
        The places; of documents on a server, they are computed once the documents are found.
    """
    if not view.is_local:
        later = max(view.count("documents") - fitted_documents, 0)
        return DocumentPlaces(None, later, corpus_ids)
    documents = view.all().documents
    ids = NO_IDS if documents is None else id_numbers(documents.rows, documents.keys)
    return DocumentPlaces.known(_places_of_ids(ids, corpus_ids))


def _places_of_ids(ids: np.ndarray, corpus_ids: np.ndarray) -> np.ndarray:
    order = np.argsort(corpus_ids, kind="stable")
    found = order[np.searchsorted(corpus_ids, ids, sorter=order).clip(0, len(order) - 1)]
    return np.where(corpus_ids[found] == ids, found, -1)
