"""RemoteDatastore: the examples of a datastore in a collection of Milvus, searched and changed there."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..documents import PREFIX
from ..key_matrix import as_matrix
from ..labels import encode_known_labels, encode_labels, is_multi_label, rename_labels
from ..passage_table import take_passages
from ..precision_check import in_one_precision
from ..row_table import ids_among, is_counted
from ..sampling import take_rows, with_ids
from ..snapshot import Buffers, Snapshot, add_rows, empty_snapshot
from .about import About, read_about, read_changed, write_about, write_changed, write_labels
from .collection import DOCUMENTS, EXAMPLES, FIELDS, PK, REST, Collection
from .remote_search import remote_search
from .rows import (
    DOCUMENT,
    LOCATING,
    all_keys,
    content_numbers,
    document_key,
    names_of,
    repeatable_ids,
    to_rows,
    to_snapshot,
)

if TYPE_CHECKING:
    from ....models.inference.passages import Passages
    from ..datastore import KNNDatastore
    from ..fitted_state import FittedState
    from ..neighbors import Neighbors

logger = logging.getLogger(__name__)

MOST_COPIED = 2**31  # bytes of keys that are fetched for what needs all rows
BLOCK_ROWS = 10_000  # of another datastore, written at a time
SAMPLE = 500  # examples to calibrate on: each is a search
ONE_EACH = "passage == 0"  # of a document's rows
_SAME = ("content", "labels", "passages")  # what an added row and one of the same id must share


class RemoteDatastore:
    """A datastore in a collection of Milvus: what ``KNNDatastore.connect`` gives.

    It goes where a ``KNNDatastore`` goes, and has the methods that a pipeline needs. A search fetches the candidates
    that Milvus finds, and takes the nearest of them by their exact distances, as a ``KNNDatastore`` of these would.
    What needs all rows (``fit``, ``audit``, ``suggest``, ``report``) fetches them once, into ``snapshot``.

    Differences from ``KNNDatastore``: keys are float32; ids that are not given are made of content and labels, so that
    equal examples of two calls are one; ``add`` may be repeated after it failed, and writes again what is there
    already; what ``fit`` learned stays in this process; and ``save_pretrained`` saves nothing of it.
    """

    def __init__(self, collection: Collection, about: About, as_local: Callable[[Snapshot], KNNDatastore]) -> None:
        self._collection, self._about, self._as_local = collection, about, as_local
        self._writing = threading.Lock()
        self._copy: KNNDatastore | None = None
        self._copied = ""  # the change up to which the copy goes
        self._last_row = 0

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
        return None if self._copy is None else self._copy.fitted

    @fitted.setter
    def fitted(self, state: FittedState | None) -> None:
        self._local().fitted = state
        logger.info("What was fitted is kept by this process alone, not in %r.", self._collection)

    def change_fitted(self, change: Callable[[FittedState], FittedState]) -> None:
        """Change what was fitted, if anything was."""
        if self._copy is not None:
            self._copy.change_fitted(change)

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
        return {row["id"] for row in self._firsts(EXAMPLES, ids)}

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
            self._decide(labels)
            encoded, names = encode_labels(labels, self.label_names, self.multi_label)
            if len(names) > len(self.label_names):  # somebody else may have added them
                self._refresh_about()
                encoded, names = encode_labels(labels, self.label_names, self.multi_label)
            given = names_of(encoded, names)
            rows = self._checked(keys, encoded, names, texts, text_pairs, ids, passages, given, EXAMPLES)
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
            rows = self._checked(keys, none, (), texts, text_pairs, ids, passages, [[]] * len(keys), DOCUMENTS)
            return self._put(rows, DOCUMENTS, [])

    def merge(self, other: KNNDatastore) -> None:
        """Add all rows and documents of another datastore. Where it fails half-way, repeat it.

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
            found = self._firsts(EXAMPLES, labels, FIELDS)
            _check_found(labels, found)
            rows = [row | {"labels": json.dumps(names[row["id"]])} for row in found]
            with self._change(lambda copy: copy.relabel(labels)):
                self._collection.write(EXAMPLES, rows)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save nothing: the examples stay where they are, and a folder names no server that its user did not choose."""
        logger.warning("%r is not saved in %s: give it to the pipeline as datastore again.", self._collection, folder)

    def content(self) -> list[Any]:
        """What changes when anything in it does: for the fingerprint of answers."""
        return [self._collection.name, self.label_names, read_changed(self._collection)]

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

    def _decide(self, labels: Sequence[Any]) -> None:
        if self._about.multi_label is None and len(labels):
            self._set(multi_label=is_multi_label(labels))

    def _add_labels(self, names: tuple[str, ...]) -> None:
        write_labels(self._collection, self._about, names[len(self.label_names) :], self._next_rows(len(names)))
        self._about = replace(self._about, label_names=names)

    def _next_rows(self, count: int) -> int:
        """The first of some numbers by which rows are in order: of the clock, so that processes need not agree."""
        first = max(time.time_ns(), self._last_row + 1)
        self._last_row = first + count
        return first

    def _checked(
        self,
        keys: Any,
        labels: np.ndarray,
        names: tuple[str, ...],
        texts: Iterable[str | None] | None,
        pairs: Iterable[str | None] | None,
        ids: Iterable[str] | None,
        passages: Passages | None,
        given: list[list[str]],
        kind: str,
    ) -> Snapshot:
        """New rows as a snapshot of their own: all that is to be checked of them is checked."""
        keys = as_matrix(keys, "keys", self.dimension)
        empty = empty_snapshot(self.dimension, names, labels.ndim == 2)
        rows = add_rows(empty, Buffers(empty), keys, labels, names, texts, pairs, ids, passages)
        if ids is not None:
            return rows
        table = rows.rows.to_pydict()
        contents = content_numbers(table["text"], table["text_pair"], rows.keys)
        return with_ids(rows, repeatable_ids(contents, given, kind))

    def _put(self, rows: Snapshot, kind: str, replacing: list[str]) -> list[str]:
        """Write rows, then remove what they replace."""
        ids = rows.rows["id"].to_pylist()
        replaced = self._either(replacing)
        _check_found(replacing, replaced)
        there = self._either(ids)
        gone = {row[PK][:DOCUMENT] for row in replaced}
        own, rest = to_rows(rows, kind, self._next_rows(len(ids)))
        new = {row[PK]: row for row in own if row["passage"] == 0}
        for row in there:
            same = (before := new.get(row[PK])) and all(before[name] == row[name] for name in _SAME)
            if row[PK][:DOCUMENT] not in gone and not same:
                raise ValueError(f"The id {row['id']!r} is there already: remove it first, or give another.")
        written = {row[PK] for row in (*own, *rest)}
        doubled = [row["id"] for row in there if row[PK][:DOCUMENT] not in gone]
        with self._change(lambda copy: _put_into(copy, rows, kind, replacing, doubled)):
            self._collection.write(REST, rest, len(ids))
            self._collection.write(kind, own, len(ids))
            self._collection.delete([key for key in all_keys(replaced) if key not in written])
        return ids

    def _merge(self, state: Snapshot, kind: str) -> None:
        ids = state.rows["id"].to_pylist()
        table = state.rows.to_pydict()
        contents = content_numbers(table["text"], table["text_pair"], state.keys)
        fresh = repeatable_ids(contents, names_of(state.labels, state.label_names), kind)
        prefix = PREFIX if kind == DOCUMENTS else ""
        pairs = zip(ids, fresh, strict=True)
        state = with_ids(state, [new if is_counted(old, state.next_id, prefix) else old for old, new in pairs])
        for start in range(0, len(ids), BLOCK_ROWS):
            rows = np.arange(start, min(start + BLOCK_ROWS, len(ids)))
            self._put(take_rows(state, rows), kind, [])

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
            found = self._firsts(kind, ids)
            _check_found(ids, found)
            with self._change(lambda copy: getattr(copy, method)(ids)):
                self._collection.delete(all_keys(found))

    @contextlib.contextmanager
    def _change(self, change: Callable[[KNNDatastore], Any]) -> Iterator[None]:
        """Change the collection within; then its copy in the same way, and tell all others."""
        before, self._copied = self._copied, ""  # what fails half-way leaves a copy that is fetched again
        yield
        is_known = self._copy is not None and read_changed(self._collection) == before
        token = write_changed(self._collection, self._about)
        if is_known:
            change(self._copy)
            self._copied = token

    def _local(self) -> KNNDatastore:
        token = read_changed(self._collection)
        if self._copy is not None and token == self._copied:
            return self._copy
        self._refresh_about()
        count = sum(self._collection.count(kind) for kind in (EXAMPLES, DOCUMENTS, REST))
        if (size := 4 * count * self.dimension) > MOST_COPIED:
            raise ValueError(
                f"This needs all rows, and the keys of {self._collection!r} have {size / 2**30:.1f} GiB, more than "
                f"{MOST_COPIED / 2**30:g}: take a sample of them into a KNNDatastore, and work on that."
            )
        rest = list(self._collection.rows(REST, FIELDS))
        examples, documents = (
            [*self._collection.rows(kind, FIELDS), *(row for row in rest if row[PK][0] == kind[0])]
            for kind in (EXAMPLES, DOCUMENTS)
        )
        snapshot, unlabeled = self._decoded(examples), to_snapshot(documents, self._about, labeled=False)
        written = len({row[PK][:DOCUMENT] for row in (*examples, *documents)})
        logger.info("Fetched %d rows from %r.", len(snapshot.keys) + len(unlabeled.keys), self._collection)
        if (lost := written - len(snapshot.keys) - len(unlabeled.keys)) > 0:
            logger.warning("%d rows were written in part, and are left out: repeat the add that failed.", lost)
        fitted = self.fitted
        whole = replace(snapshot, documents=unlabeled if len(unlabeled.keys) else None, fitted=fitted)
        self._copy, self._copied = self._as_local(whole), token
        return self._copy

    def _firsts(self, kind: str, ids: Iterable[str], fields: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The first rows of documents by their ids."""
        for row_id in (ids := list(ids)):
            if not isinstance(row_id, str):
                raise ValueError(
                    f"There is no row with the id {row_id!r}: ids are strings, as add and search give them."
                )
        keys = [f"{document_key(kind, row_id)}p0" for row_id in dict.fromkeys(ids)]
        return self._collection.get(keys, fields or [PK, "id", *_SAME, *LOCATING])

    def _either(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        return [row for kind in (EXAMPLES, DOCUMENTS) for row in self._firsts(kind, ids)]

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


def _check_found(ids: Iterable[str], found: list[dict[str, Any]]) -> None:
    known = {row["id"] for row in found}
    for row_id in ids:
        if row_id not in known:
            raise ValueError(f"There is no row with the id {row_id!r}: ids are strings, as add and search give them.")


def _put_into(copy: KNNDatastore, rows: Snapshot, kind: str, replacing: list[str], doubled: list[str]) -> None:
    """Do with a copy what was done with the collection."""
    texts = [rows.rows[name].to_pylist() for name in ("text", "text_pair", "id")]
    passages = take_passages(rows.passages, np.arange(len(rows.keys)))
    tables = [state.rows for state in (copy.snapshot, copy.snapshot.documents) if state is not None]
    doubled = sorted(ids_among(doubled, *tables))  # not what was written in part
    if kind == DOCUMENTS:
        copy.remove_documents(doubled)
        copy.add_documents(rows.keys, *texts, passages)
        return
    names = names_of(rows.labels, rows.label_names)
    labels = names if copy.multi_label else [name for (name,) in names]
    copy.add(rows.keys, labels, *texts, replacing=[*replacing, *doubled], passages=passages)
