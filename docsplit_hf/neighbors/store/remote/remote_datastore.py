"""RemoteDatastore: the examples of a datastore in a collection of Milvus, searched and changed there."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..keys.key_matrix import as_matrix
from ..labels import encode_known_labels, encode_labels, is_multi_label, rename_labels
from ..precision_check import in_one_precision
from ..sampling import take_rows
from ..snapshot import Snapshot, empty_snapshot
from .about import About, read_about, read_changed, write_about, write_labels
from .collection import DOCUMENTS, EXAMPLES, FIELDS, PK, REST, Collection
from .local_copy import LocalCopy
from .remote_search import remote_search
from .rows import LOCATING, all_keys, content_numbers, names_of, to_snapshot
from .writing import check_found, find_rows, new_rows, put, renumbered

if TYPE_CHECKING:
    from ....models.inference.long_documents import Passages
    from ..datastore import KNNDatastore
    from ..fitted_state import FittedState
    from ..neighbors import Neighbors
    from ..store import Store

logger = logging.getLogger(__name__)

BLOCK_ROWS = 10_000  # of another datastore, written at a time
SAMPLE = 500  # examples to calibrate on: each is a search
ONE_EACH = "passage == 0"  # of a document's rows


class RemoteDatastore:
    """A datastore in a collection of Milvus: what ``connect_datastore`` gives.

    It goes where a ``KNNDatastore`` goes, and has the methods that a pipeline needs. A search fetches the candidates
    that Milvus finds, and takes the nearest of them by their exact distances, as a ``KNNDatastore`` of these would.
    What needs all rows (``fit``, ``audit``, ``suggest``, ``report``) fetches them once, into ``snapshot``.

    Differences from ``KNNDatastore``: keys are float32; ids that are not given are made of content and labels, so that
    equal examples of two calls are one; ``add`` may be repeated after it failed, and writes again what is there
    already; what ``fit`` learned stays in this process; and ``save_pretrained`` saves nothing of it.
    """

    def __init__(self, collection: Collection, about: About) -> None:
        self._collection, self._about = collection, about
        self._copy, self._writing, self._last_row = LocalCopy(collection), threading.Lock(), 0

    def __len__(self) -> int:
        return self._collection.count(EXAMPLES, ONE_EACH)

    def __repr__(self) -> str:
        return f"RemoteDatastore({self._collection!r}, dimension {self.dimension}, {len(self.label_names)} labels)"

    def __reduce__(self) -> Any:
        raise TypeError("A connection cannot be copied or pickled, as it may have a token: connect again.")

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._collection.name

    @property
    def dimension(self) -> int:
        """D of the keys."""
        return self._about.dimension

    @property
    def dtype(self) -> str:
        """``"float32"``."""
        return "float32"

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, as they were when it was connected, and those that were seen since."""
        return self._about.label_names

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return bool(self._about.multi_label)

    @property
    def probe(self) -> np.ndarray | None:
        """The fingerprint of the encoder that made the keys, ``(P, D)``."""
        return self._about.probe

    @property
    def has_passages(self) -> bool:
        """Whether a row has several passages."""
        return self._collection.count(REST) > 0 and self._collection.count(EXAMPLES, "passages > 1") > 0

    @property
    def documents(self) -> RemoteDocuments | None:
        """The unlabeled documents; None if there are none."""
        documents = RemoteDocuments(self._collection, self._about)
        return documents if len(documents) else None

    @property
    def snapshot(self) -> Snapshot:
        """All rows, fetched once, and again when they were changed by somebody else.

        Raises:
            ValueError: If their keys have more than 2 GiB.
        """
        return self._local().snapshot

    @property
    def fitted(self) -> FittedState | None:
        """What was fitted by this process; None if nothing was."""
        return None if self._copy.datastore is None else self._copy.datastore.fitted

    @fitted.setter
    def fitted(self, state: FittedState | None) -> None:
        self._local().fitted = state
        logger.info("What was fitted is kept by this process alone, not in %r.", self._collection)

    def change_fitted(self, change: Callable[[FittedState], FittedState]) -> None:
        """Change what was fitted, if anything was."""
        if self._copy.datastore is not None:
            self._copy.datastore.change_fitted(change)

    def label_array(self, labels: Sequence[Any]) -> np.ndarray:
        """Labels as ``KNNDatastore.label_array`` gives them."""
        return encode_known_labels(labels, self.label_names, self.multi_label)

    def check_encoder(self, probe: Any) -> None:
        """Refuse an encoder other than the one that made the keys."""
        self._empty().check_encoder(probe)

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> Neighbors:
        """The nearest rows of each query, as ``KNNDatastore.search`` gives them; ``rows`` number what was fetched."""
        return remote_search(self._collection, EXAMPLES, self.dimension, self._decoded, queries, k, passages)

    def with_texts(self, texts: Sequence[str], pairs: Sequence[str | None]) -> Snapshot:
        """The examples and documents that have these texts."""
        contents = sorted(set(content_numbers(texts, pairs)))
        found = [self._with_contents(kind, contents) for kind in (EXAMPLES, DOCUMENTS)]
        return replace(self._decoded(found[0]), documents=to_snapshot(found[1], self._about, labeled=False))

    def ids_there(self, ids: Iterable[str]) -> set[str]:
        """Those of some ids that examples have."""
        return {row["id"] for row in find_rows(self._collection, EXAMPLES, ids)}

    def sample(self, passages: int, least: int) -> Snapshot:
        """Some examples, always the same; the order of keys is that of hashes, and so random."""
        found = []
        for row in self._collection.rows(EXAMPLES, [PK, *LOCATING], ONE_EACH):
            found.append(row)
            if len(found) == min(SAMPLE, max(passages, least)):
                break
        return self._decoded(self._collection.get(all_keys(found), FIELDS))

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        replacing: Iterable[str] = (),
        passages: Passages | None = None,
    ) -> list[str]:
        """Add rows, which the next search sees, and return their ids.

        Where it fails half-way, a part of the rows is there: repeat it, and none is doubled.

        Args:
            keys, labels, texts, text_pairs, ids, passages: As for ``KNNDatastore``.
            replacing: The ids of rows and unlabeled documents that they take the place of; removed after the adding.

        Raises:
            ValueError: As for ``KNNDatastore``, and if an id is there already, of another text, key or label.
            RemoteDatastoreError: If Milvus cannot be reached, or refuses.
        """
        with self._writing:
            several = is_multi_label(labels) if self._about.multi_label is None else self.multi_label
            encoded, names = encode_labels(labels, self.label_names, several)
            if len(names) > len(self.label_names):  # somebody else may have added them
                self._refresh_about()
                encoded, names = encode_labels(labels, self.label_names, several)
            more = (texts, text_pairs, ids, passages)
            rows = new_rows(EXAMPLES, self.dimension, keys, encoded, names, *more)
            if self._about.multi_label is None and len(rows.keys):
                self._set(multi_label=several)
            self._add_labels(names)
            return self._put(rows, EXAMPLES, list(replacing))

    def add_documents(
        self,
        keys: Any,
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        passages: Passages | None = None,
    ) -> list[str]:
        """Add unlabeled documents, which no search of the examples sees, and return their ids. As ``add``."""
        with self._writing:
            none = np.zeros((len(keys), 0), dtype=bool)
            rows = new_rows(DOCUMENTS, self.dimension, keys, none, (), texts, text_pairs, ids, passages)
            return self._put(rows, DOCUMENTS, [])

    def merge(self, other: Store) -> None:
        """Add all rows and documents of another datastore, 10,000 at a time. Where it fails half-way, repeat it.

        So ten million rows of shards (``KNNDatastore.from_shards``) need the memory of 10,000.

        Ids that the other's counters gave are replaced by ids of their content; other ids stay.

        Raises:
            ValueError: If the dimensions or encoders differ, only one has several labels per row, or an id is there
                already.
            RemoteDatastoreError: If Milvus cannot be reached, or refuses.
        """
        state = other.snapshot
        self._check_other(state)
        with self._writing:
            if self._about.multi_label is None:
                self._set(multi_label=state.multi_label)
            if self._about.probe is None and not len(self):
                self._set(probe=state.probe)
            self._refresh_about()
            labels, names = rename_labels(state.labels, state.label_names, self.label_names)
            self._add_labels(names)
            self._merge(replace(state, labels=labels, label_names=names), EXAMPLES)
            if state.documents is not None:
                self._merge(state.documents, DOCUMENTS)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows, which the next search does not see.

        Raises:
            ValueError: If there is no row of an id, or ``ids`` is one string.
            RemoteDatastoreError: If Milvus cannot be reached, or refuses.
        """
        self._remove(EXAMPLES, ids, "remove")

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove unlabeled documents. As ``remove``."""
        self._remove(DOCUMENTS, ids, "remove_documents")

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Give rows other labels, which the next search sees.

        Raises:
            ValueError: If there is no row of an id, or a label is not known here.
            RemoteDatastoreError: If Milvus cannot be reached, or refuses.
        """
        with self._writing:
            encoded = encode_known_labels(labels.values(), self.label_names, self.multi_label)
            names = dict(zip(labels, names_of(encoded, self.label_names), strict=True))
            found = find_rows(self._collection, EXAMPLES, labels, FIELDS)
            check_found(labels, found)
            rows = [row | {"labels": json.dumps(names[row["id"]])} for row in found]
            with self._copy.change(self._about, lambda copy: copy.relabel(labels)):
                self._collection.write(EXAMPLES, rows)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save nothing: the examples stay where they are, and a folder names no server that its user did not choose."""
        logger.warning("%r is not saved in %s: give it to the pipeline as datastore again.", self._collection, folder)

    @property
    def is_in_folder(self) -> bool:
        """Whether ``save_pretrained`` writes the rows: no."""
        return False

    @property
    def content_sha256(self) -> str:
        """64 hexadecimal digits that change whenever anything in the collection does."""
        content = [self._collection.name, self.label_names, read_changed(self._collection)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def takes(self, several: bool) -> bool:
        """Yes: its first labels say whether a text may have several."""
        return True

    def _empty(self) -> Snapshot:
        return empty_snapshot(self.dimension, self.label_names, self.multi_label, probe=self.probe)

    def _decoded(self, rows: list[dict[str, Any]]) -> Snapshot:
        snapshot = to_snapshot(rows, self._about)
        if len(snapshot.label_names) > len(self.label_names):  # somebody else has added some
            self._refresh_about()
            snapshot = to_snapshot(rows, self._about)
        return snapshot

    def _refresh_about(self) -> None:
        self._about = read_about(self._collection, self.dimension)

    def _set(self, **changes: Any) -> None:
        self._about = replace(self._about, **changes)
        write_about(self._collection, self._about)

    def _add_labels(self, names: tuple[str, ...]) -> None:
        write_labels(self._collection, self._about, names[len(self.label_names) :], self._next_rows(len(names)))
        self._about = replace(self._about, label_names=names)

    def _next_rows(self, count: int) -> int:
        """The first of some numbers by which rows are in order: of the clock, so that processes need not agree."""
        first = max(time.time_ns(), self._last_row + 1)
        self._last_row = first + count
        return first

    def _put(self, rows: Snapshot, kind: str, replacing: list[str]) -> list[str]:
        change = partial(self._copy.change, self._about)
        return put(self._collection, rows, kind, self._next_rows(len(rows.keys)), replacing, change)

    def _merge(self, state: Snapshot, kind: str) -> None:
        times: dict[str, int] = {}
        for start in range(0, count := len(state.keys), BLOCK_ROWS):
            end = min(start + BLOCK_ROWS, count)
            self._put(renumbered(take_rows(state, np.arange(start, end)), kind, times), kind, [])
            logger.info("%d of %d rows are in %r.", end, count, self._collection)

    def _check_other(self, state: Snapshot) -> None:
        as_matrix(state.keys[:0], "keys of the other datastore", self.dimension)
        if self._about.multi_label not in (None, state.multi_label):
            raise ValueError("One of the two has several labels per row, the other has one: build both alike.")
        if state.probe is not None and self.probe is not None:
            self.check_encoder(state.probe)
            if not in_one_precision(state.probe, self.probe):
                raise ValueError("One of the two was built in int8, or by another export: build both in one precision.")

    def _remove(self, kind: str, ids: Iterable[str], method: str) -> None:
        if isinstance(ids, str):
            raise ValueError(f"{method} takes a list of ids, got one string: pass [{ids!r}].")
        ids = list(ids)
        with self._writing:
            found = find_rows(self._collection, kind, ids)
            check_found(ids, found)
            with self._copy.change(self._about, lambda copy: getattr(copy, method)(ids)):
                self._collection.delete(all_keys(found))

    def _local(self) -> KNNDatastore:
        if not self._copy.is_current():
            self._refresh_about()
            self._copy.fetch(self._about)
        return self._copy.datastore

    def _with_contents(self, kind: str, contents: Sequence[str]) -> list[dict[str, Any]]:
        found = self._collection.find(kind, "content", contents, [PK, *LOCATING])
        return self._collection.get(all_keys(found), FIELDS)


class RemoteDocuments:
    """The unlabeled documents of a remote datastore, to be searched and counted."""

    def __init__(self, collection: Collection, about: About) -> None:
        self._collection, self._about = collection, about

    def __len__(self) -> int:
        return self._collection.count(DOCUMENTS, ONE_EACH)

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> Neighbors:
        """The nearest documents of each query."""

        def decoded(rows: list[dict[str, Any]]) -> Snapshot:
            return to_snapshot(rows, self._about, labeled=False)

        return remote_search(self._collection, DOCUMENTS, self._about.dimension, decoded, queries, k, passages)
