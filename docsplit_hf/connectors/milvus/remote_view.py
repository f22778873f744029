"""RemoteView: the state of a collection at one moment, read from the server on request; RemoteDocuments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.changes import NO_ROW
from .collection import DOCUMENTS, EXAMPLES, FIELDS, NUMBER, PK, VECTOR, Collection, Row
from .rows import (
    CollectionDescription,
    content_hashes,
    primary_key,
    read_change_token,
    refuse_passages,
    remote_search,
    to_snapshot,
)

if TYPE_CHECKING:
    from ...arrays.passages import Passages
    from ...arrays.snapshot import ExampleTexts, FittedState, Kind, SearchResult, Snapshot

WITHOUT_VECTOR = [field for field in FIELDS if field != VECTOR]


class CollectionReader:
    """Reads a collection with its description."""

    dtype = "float32"

    def __init__(self, collection: Collection, about: CollectionDescription) -> None:
        self._collection = collection
        self._about = about

    @property
    def dimension(self) -> int:
        """D of the keys."""
        return self._about.dimension

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels when the description was read, and names seen since."""
        return self._about.label_names

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return bool(self._about.multi_label)

    def _decoded(self, rows: list[Row], kind: Kind) -> Snapshot:
        return to_snapshot(rows, self._about, labeled=kind == EXAMPLES)

    def _search(self, kind: Kind, queries: Any, k: int, passages: Passages | None) -> SearchResult:
        refuse_passages(passages)
        decoded = partial(self._decoded, kind=kind)
        return remote_search(self._collection, kind, self.dimension, decoded, queries, k)


class RemoteDocuments(CollectionReader):
    """The unlabeled documents of a collection, for searching and counting."""

    def __len__(self) -> int:
        return self._collection.count(DOCUMENTS)

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """The nearest documents of each query."""
        return self._search(DOCUMENTS, queries, k, passages)


class RemoteView(CollectionReader):
    """The ``View`` of a collection. It fetches what a search needs; all rows only for ``all``.

    Milvus keeps no state across requests. So a view has the token of the last change, ``version``, and ``is_current``
    compares it with that of the server: if it differs, searches may have seen different states.
    """

    is_local = False

    def __init__(
        self,
        collection: Collection,
        about: CollectionDescription,
        version: str,
        fitted: FittedState | None,
        fetch_all: Callable[[], Snapshot],
    ) -> None:
        super().__init__(collection, about)
        self.version = version
        self.fitted = fitted
        self._fetch_all = fetch_all
        self._counts: dict[Kind, int] = {}

    def is_current(self) -> bool:
        """Whether nothing has changed since the view was made, which asks the server."""
        return read_change_token(self._collection) == self.version

    def count(self, kind: Kind = EXAMPLES) -> int:
        """Count the examples or documents, once."""
        if kind not in self._counts:
            self._counts[kind] = self._collection.count(kind)
        return self._counts[kind]

    def search(self, queries: Any, k: int, passages: Passages | None = None, kind: Kind = EXAMPLES) -> SearchResult:
        """Find the k nearest examples or documents of each query, ``(Q, D)``."""
        return self._search(kind, queries, k, passages)

    def get(
        self, texts: Sequence[str] = (), text_pairs: Sequence[str | None] = (), ids: Iterable[str] = ()
    ) -> Snapshot:
        """Return the examples and documents with these texts, and the examples with these ids."""
        contents = sorted(set(content_hashes(texts, text_pairs)))
        found_examples = self._collection.find(EXAMPLES, "content", contents, [PK])
        found_examples += find_ids(self._collection, EXAMPLES, ids, [PK])
        found_documents = self._collection.find(DOCUMENTS, "content", contents, [PK])
        examples = to_snapshot(self._get(found_examples, FIELDS), self._about)
        documents = to_snapshot(self._get(found_documents, FIELDS), self._about, labeled=False)
        return replace(examples, documents=documents)

    def first(self, count: int) -> ExampleTexts:
        """Return texts and labels of the first ``count`` examples, without fetching their keys."""
        numbered = sorted(self._collection.rows(EXAMPLES, [PK, NUMBER]), key=lambda row: (row[NUMBER], row[PK]))
        no_key = np.zeros(self.dimension, np.float32)
        rows = [row | {VECTOR: no_key} for row in self._get(numbered[:count], WITHOUT_VECTOR)]
        return to_snapshot(rows, self._about).first(count)

    def all(self) -> Snapshot:
        """Fetch all rows, unless they were fetched since the last change."""
        return self._fetch_all()

    def _get(self, found: Iterable[Row], fields: Sequence[str]) -> list[Row]:
        """Fetch more fields of rows, each once."""
        return self._collection.get(list(dict.fromkeys(row[PK] for row in found)), fields)


def find_ids(collection: Collection, kind: Kind, ids: Iterable[str], fields: Sequence[str]) -> list[Row]:
    """Get the rows of examples or documents by their ids."""
    keys = []
    for row_id in dict.fromkeys(ids):
        if not isinstance(row_id, str):
            raise ValueError(NO_ROW.format(row_id))
        keys.append(primary_key(kind, row_id))
    return collection.get(keys, fields)
