"""RemoteView: the state of a collection at one moment, read from the server on request; RemoteDocuments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.changes import NO_ROW
from .collection import DOCUMENTS, EXAMPLES, FIELDS, PK, REST, VECTOR, Collection, Row
from .rows import (
    KEY_FIELDS,
    CollectionDescription,
    all_primary_keys,
    content_hashes,
    document_key_prefix,
    read_change_token,
    remote_search,
    to_snapshot,
)

if TYPE_CHECKING:
    from ...arrays.passages import Passages
    from ...arrays.snapshot import ExampleTexts, FittedState, Kind, SearchResult, Snapshot

ONE_EACH = "passage == 0"  # filter: one row of each document
WITHOUT_VECTOR = [field for field in FIELDS if field != VECTOR]
LAST_NUMBER = 2**63 - 1  # largest row number


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
        decoded = partial(self._decoded, kind=kind)
        return remote_search(self._collection, kind, self.dimension, decoded, queries, k, passages)


class RemoteDocuments(CollectionReader):
    """The unlabeled documents of a collection, for searching and counting."""

    def __len__(self) -> int:
        return self._collection.count(DOCUMENTS, ONE_EACH)

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
            self._counts[kind] = self._collection.count(kind, ONE_EACH)
        return self._counts[kind]

    def search(self, queries: Any, k: int, passages: Passages | None = None, kind: Kind = EXAMPLES) -> SearchResult:
        """Find the k nearest examples or documents of each query, ``(Q, D)``."""
        return self._search(kind, queries, k, passages)

    def get(
        self, texts: Sequence[str] = (), text_pairs: Sequence[str | None] = (), ids: Iterable[str] = ()
    ) -> Snapshot:
        """Return the examples and documents with these texts, and the examples with these ids."""
        contents = sorted(set(content_hashes(texts, text_pairs)))
        located = (PK, *KEY_FIELDS)
        found_examples = self._collection.find(EXAMPLES, "content", contents, located)
        found_examples += find_ids(self._collection, EXAMPLES, ids, located)
        found_documents = self._collection.find(DOCUMENTS, "content", contents, located)
        examples = to_snapshot(self._collection.get(all_primary_keys(found_examples), FIELDS), self._about)
        documents = self._collection.get(all_primary_keys(found_documents), FIELDS)
        return replace(examples, documents=to_snapshot(documents, self._about, labeled=False))

    def first(self, count: int) -> ExampleTexts:
        """Return texts and labels of the first ``count`` examples, without fetching their keys."""
        wanted = count
        no_key = np.zeros(self.dimension, np.float32)
        while True:
            number = self._number_of_example(wanted)
            only = f"row <= {number}"
            rows = list(self._collection.rows(EXAMPLES, WITHOUT_VECTOR, only))
            rows += [row for row in self._collection.rows(REST, WITHOUT_VECTOR, only) if row[PK][0] == EXAMPLES[0]]
            found = to_snapshot([row | {VECTOR: no_key} for row in rows], self._about)
            missing = count - len(found.keys)  # examples that were written in part are left out
            if missing <= 0 or number == LAST_NUMBER:
                return found.first(count)
            wanted += missing

    def all(self) -> Snapshot:
        """Fetch all rows, unless they were fetched since the last change."""
        return self._fetch_all()

    def _number_of_example(self, count: int) -> int:
        """A number of a row up to which there are at least ``count`` examples, and few more; the last if fewer."""
        if self.count() <= count:
            return LAST_NUMBER
        low = 0
        high = LAST_NUMBER
        while high - low > 1:
            middle = (low + high) // 2
            found = self._collection.count(EXAMPLES, f"{ONE_EACH} and row <= {middle}")
            if found < count:
                low = middle
            else:
                high = middle
                if found <= count + count // 8:
                    break
        return high


def find_ids(collection: Collection, kind: Kind, ids: Iterable[str], fields: Sequence[str]) -> list[Row]:
    """Get the first rows of examples or documents by their ids."""
    keys = []
    for row_id in dict.fromkeys(ids):
        if not isinstance(row_id, str):
            raise ValueError(NO_ROW.format(row_id))
        keys.append(f"{document_key_prefix(kind, row_id)}p0")
    return collection.get(keys, fields)
