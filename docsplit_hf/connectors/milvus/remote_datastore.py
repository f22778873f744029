"""RemoteDatastore: a store in a collection of Milvus, searched and changed there."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.changes import DOCUMENT_PREFIX, NO_ROW, add_document_rows, add_rows, empty_snapshot, uncounted_ids
from ...arrays.keys import as_matrix
from ...arrays.probe import check_same_encoder
from ...arrays.row_table import encode_known_labels, encode_labels, rename_labels
from ...arrays.snapshot import FittedState
from ...content_hash import sha256_of_json
from ...reading.labels import are_lists
from .collection import DOCUMENTS, EXAMPLES, FIELDS, PK, Collection, Row
from .remote_view import CollectionReader, RemoteDocuments, RemoteView, find_ids
from .rows import (
    CollectionDescription,
    label_names_of_rows,
    read_change_token,
    read_description,
    refuse_passages,
    to_rows,
    to_snapshot,
    with_ids,
    write_change_token,
    write_description,
    write_labels,
)

if TYPE_CHECKING:
    from ...arrays.passages import Passages
    from ...arrays.snapshot import Kind, SearchResult, Snapshot
    from ...arrays.store import Store
    from ...reading.origins import Origin

logger = logging.getLogger(__name__)

BLOCK_ROWS = 10_000  # of another datastore, written at a time
MAX_COPIED_BYTES = 2**31  # of keys
MAX_SAMPLE = 500  # examples to calibrate on: each is a search
COMPARED_FIELDS = ("content", "labels")  # equal if an existing row with the id is the added one
FOUND = (PK, "id", *COMPARED_FIELDS)  # fields of rows that are replaced or removed


class RemoteDatastore(CollectionReader):
    """A datastore in a collection of Milvus, from ``connect_datastore``.

    It replaces a ``KNNDatastore``, and has the methods that a pipeline needs. A search fetches candidates from Milvus,
    and ranks them by their exact distances, as a ``KNNDatastore`` of the candidates does. A fitted classifier answers
    by such searches, too. Methods of a pipeline that need all rows (``fit``, ``audit``, ``suggest``,
    ``measure_drift``) fetch them once, by ``view().all()``.

    Differences from ``KNNDatastore``: keys are float32; missing ids are made of content and labels, so that equal
    examples of two calls are one; ``add`` may be repeated after it failed, and overwrites rows that it has written; the
    fitted state stays in this process; ``save_pretrained`` saves nothing; and each method raises
    ``RemoteDatastoreError`` if Milvus cannot be reached, or refuses.
    """

    is_saved_with_classifier = False
    has_passages = False

    def __init__(self, collection: Collection, about: CollectionDescription) -> None:
        super().__init__(collection, about)
        self._writing = threading.Lock()
        self._last_row = 0
        self._fitted: FittedState | None = None
        self._view: RemoteView | None = None  # the last one
        self._rows: Snapshot | None = None  # all of them, if they were fetched
        self._rows_version = ""  # the token of the last change before

    def __len__(self) -> int:
        return self._collection.count(EXAMPLES)

    def __repr__(self) -> str:
        return f"RemoteDatastore({self._collection!r}, dimension {self.dimension}, {len(self.label_names)} labels)"

    def __reduce__(self) -> Any:
        raise TypeError("A connection cannot be copied or pickled, as it may have a token: connect again.")

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._collection.name

    @property
    def probe(self) -> np.ndarray | None:
        """Probe embeddings by the encoder of the keys, ``(P, D)``."""
        return self._about.probe

    @property
    def documents(self) -> RemoteDocuments:
        """The unlabeled documents, for searching and counting; falsy without documents, which asks the server."""
        return RemoteDocuments(self._collection, self._about)

    @property
    def snapshot(self) -> Snapshot:
        """All rows, of at most 2 GiB of keys: fetched once, and again after a change."""
        return self._all_rows()

    def view(self) -> RemoteView:
        """Return the current state for reading; the same object while nothing has changed, which asks the server."""
        version = read_change_token(self._collection)
        view = self._view
        if view is None or view.version != version or view.fitted is not self._fitted:
            self._refresh_about()
            view = RemoteView(self._collection, self._about, version, self._fitted, self._all_rows)
            self._view = view
        return view

    @property
    def fitted(self) -> FittedState | None:
        """The state fitted by this process; None before a fit."""
        return self._fitted

    @fitted.setter
    def fitted(self, state: FittedState | None) -> None:
        if state is not None and not isinstance(state, FittedState):
            raise ValueError(f"fitted is a FittedState or None, got {state!r}.")
        self._fitted = state
        logger.info("The fitted state stays in this process; it is not saved in %r.", self._collection)

    @property
    def content_sha256(self) -> str:
        """64 hexadecimal digits that change with every change of the collection."""
        content = [self._collection.name, self.label_names, read_change_token(self._collection)]
        return sha256_of_json(content)

    def for_labels(self, multi_label: bool) -> RemoteDatastore:
        """Return self: the first added labels decide whether a row may have several labels."""
        return self

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """The nearest rows of each query, as by ``KNNDatastore.search``; ``rows`` are numbers of fetched rows."""
        return self._search(EXAMPLES, queries, k, passages)

    def sample(self, passages: int, least: int) -> Snapshot:
        """Some examples, always the same: the first by their keys, which are hashes."""
        rows = self._collection.rows(EXAMPLES, [PK])
        keys = [row[PK] for row in itertools.islice(rows, min(MAX_SAMPLE, max(passages, least)))]
        return self._decoded(self._collection.get(keys, FIELDS), EXAMPLES)

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        replacing: Iterable[str] = (),
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
    ) -> list[str]:
        """Add rows, as ``KNNDatastore.add`` does. If it fails halfway, repeat it: no row is added twice."""
        refuse_passages(passages)
        with self._writing:
            multi_label = are_lists(labels) if self._about.multi_label is None else self.multi_label
            _, names = encode_labels(labels, self.label_names, multi_label)
            if len(names) > len(self.label_names):
                self._refresh_about()  # another process may have added them
            empty = empty_snapshot(self.dimension, self.label_names, multi_label)
            filled = add_rows(empty, keys, labels, texts, text_pairs, ids, origins=origins)
            rows = _named(filled, EXAMPLES, ids)
            if self._about.multi_label is None and len(rows.keys):
                self._set_about(multi_label=multi_label)
            self._add_labels(rows.label_names)
            return self._put(rows, EXAMPLES, list(replacing))

    def add_documents(
        self,
        keys: Any,
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
    ) -> list[str]:
        """Add documents, as ``KNNDatastore.add_documents`` does. If it fails halfway, repeat it."""
        refuse_passages(passages)
        with self._writing:
            empty = empty_snapshot(self.dimension)
            grown = add_document_rows(empty, keys, texts, text_pairs, ids, origins=origins)
            return self._put(_named(grown.documents, DOCUMENTS, ids), DOCUMENTS, [])

    def merge(self, other: Store) -> None:
        """Add all rows and documents of another datastore, 10,000 at a time. If it fails halfway, repeat it.

        Ids from the other datastore's counters are replaced by ids of their content; other ids stay.
        """
        state = other.view().all()
        for rows in (state, state.documents):
            refuse_passages(None if rows is None else rows.passages)
        as_matrix(state.keys[:0], "keys of the other datastore", self.dimension)
        if self._about.multi_label not in (None, state.multi_label):
            raise ValueError("One of the two has several labels per row, the other has one: build both alike.")
        if state.probe is not None and self.probe is not None:
            check_same_encoder(self.probe, state.probe)
        with self._writing:
            if self._about.multi_label is None:
                self._set_about(multi_label=state.multi_label)
            if self._about.probe is None and not len(self):
                self._set_about(probe=state.probe)
            self._refresh_about()
            labels, names = rename_labels(state.labels, state.label_names, self.label_names)
            self._add_labels(names)
            self._merge(replace(state, labels=labels, label_names=names), EXAMPLES)
            if state.documents is not None:
                self._merge(state.documents, DOCUMENTS)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows, as ``KNNDatastore.remove`` does."""
        self._remove(EXAMPLES, ids)

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove documents, as ``KNNDatastore.remove_documents`` does."""
        self._remove(DOCUMENTS, ids)

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Change labels of rows, as ``KNNDatastore.relabel`` does."""
        with self._writing:
            encoded = encode_known_labels(labels.values(), self.label_names, self.multi_label)
            names = dict(zip(labels, label_names_of_rows(encoded, self.label_names), strict=True))
            found = find_ids(self._collection, EXAMPLES, labels, FIELDS)
            _check_found(labels, found)
            rows = [row | {"labels": json.dumps(names[row["id"]])} for row in found]
            with self._changing():
                self._collection.write(EXAMPLES, rows)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save nothing: the examples stay on the server, and a saved folder must not choose a server for its user."""
        logger.warning("%r is not saved in %s: give it to the pipeline as datastore again.", self._collection, folder)

    def _decoded(self, rows: list[Row], kind: Kind) -> Snapshot:
        snapshot = super()._decoded(rows, kind)
        if len(snapshot.label_names) > len(self.label_names):  # another process has added some
            self._refresh_about()
            snapshot = super()._decoded(rows, kind)
        return snapshot

    def _refresh_about(self) -> None:
        self._about = read_description(self._collection, self.dimension)

    def _set_about(self, **changes: Any) -> None:
        self._about = replace(self._about, **changes)
        write_description(self._collection, self._about)

    def _add_labels(self, names: tuple[str, ...]) -> None:
        write_labels(self._collection, self._about, names[len(self.label_names) :], self._next_rows(len(names)))
        self._about = replace(self._about, label_names=names)

    def _next_rows(self, count: int) -> int:
        """The first of ``count`` numbers that order rows: from the clock, so that processes need no coordination."""
        first = max(time.time_ns(), self._last_row + 1)
        self._last_row = first + count
        return first

    def _put(self, rows: Snapshot, kind: str, replacing: list[str]) -> list[str]:
        """Write rows, then remove the rows that they replace. Returns the ids."""
        ids = rows.rows["id"].to_pylist()
        replaced: list[Row] = []
        existing: list[Row] = []
        for partition in (EXAMPLES, DOCUMENTS):
            replaced += find_ids(self._collection, partition, replacing, FOUND)
            existing += find_ids(self._collection, partition, ids, FOUND)
        _check_found(replacing, replaced)
        rows_by_key = {row[PK]: row for row in to_rows(rows, kind, self._next_rows(len(ids)))}
        replaced_keys = {row[PK] for row in replaced}
        for row in existing:
            new_row = rows_by_key.get(row[PK])
            is_same = new_row is not None and all(new_row[name] == row[name] for name in COMPARED_FIELDS)
            if not is_same and row[PK] not in replaced_keys:
                raise ValueError(f"The id {row['id']!r} is there already: remove it first, or give another.")
        with self._changing():
            self._collection.write(kind, list(rows_by_key.values()))
            self._collection.delete(sorted(replaced_keys - rows_by_key.keys()))
        return ids

    def _merge(self, state: Snapshot, kind: str) -> None:
        times: dict[str, int] = {}
        count = len(state.keys)
        for start in range(0, count, BLOCK_ROWS):
            rows = state.take(np.arange(start, min(start + BLOCK_ROWS, count)))
            given = uncounted_ids(rows, DOCUMENT_PREFIX if kind == DOCUMENTS else "")
            self._put(with_ids(rows, given, kind, times), kind, [])
            logger.info("%d of %d rows are in %r.", start + len(rows.keys), count, self._collection)

    def _remove(self, kind: str, ids: Iterable[str]) -> None:
        if isinstance(ids, str):
            raise ValueError(f"A removal takes a list of ids, got one string: pass [{ids!r}].")
        ids = list(ids)
        with self._writing:
            found = find_ids(self._collection, kind, ids, FOUND)
            _check_found(ids, found)
            with self._changing():
                self._collection.delete([row[PK] for row in found])

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the collection within the context, and then write a new token."""
        self._rows = None  # a change that fails halfway writes no token
        yield
        write_change_token(self._collection, self._about)

    def _all_rows(self) -> Snapshot:
        """All rows with the fitted state; the same object while nothing has changed."""
        version = read_change_token(self._collection)
        if self._rows is None or self._rows_version != version:
            self._rows = self._fetch_all()
            self._rows_version = version
        if self._rows.fitted is not self._fitted:
            self._rows = replace(self._rows, fitted=self._fitted)
        return self._rows

    def _fetch_all(self) -> Snapshot:
        """Fetch all rows, within the limit of their size."""
        collection = self._collection
        self._refresh_about()
        count = sum(collection.count(partition) for partition in (EXAMPLES, DOCUMENTS))
        size = 4 * count * self.dimension
        if size > MAX_COPIED_BYTES:
            raise ValueError(
                f"This needs all rows, and the keys of {collection!r} have {size / 2**30:.1f} GiB, more than "
                f"{MAX_COPIED_BYTES / 2**30:g}: build a KNNDatastore of fewer examples for it."
            )
        snapshot = to_snapshot(collection.rows(EXAMPLES, FIELDS), self._about)
        unlabeled = to_snapshot(collection.rows(DOCUMENTS, FIELDS), self._about, labeled=False)
        logger.info("Fetched %d rows from %r.", len(snapshot.keys) + len(unlabeled.keys), collection)
        whole = replace(snapshot, documents=unlabeled if len(unlabeled.keys) else None)
        whole.freeze()
        return whole


def _named(rows: Snapshot, kind: str, ids: Iterable[str] | None) -> Snapshot:
    """The rows with ids of their content, unless ids were given."""
    return rows if ids is not None else with_ids(rows, [None] * len(rows.keys), kind, {})


def _check_found(ids: Iterable[str], found: list[Row]) -> None:
    """Refuse ids without a row."""
    known = {row["id"] for row in found}
    for row_id in ids:
        if row_id not in known:
            raise ValueError(f"{NO_ROW.format(row_id)} A removal may have succeeded although its answer was lost.")
