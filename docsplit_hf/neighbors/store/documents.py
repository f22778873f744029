"""Unlabeled documents of a datastore: a snapshot of their own within its snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .keys.passage_table import check_passages
from .row_table import automatic_ids, ids_among, make_rows
from .snapshot import Buffers, Snapshot, append, remove_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ...models.inference.long_documents import Passages
    from .keys.passage_table import PassageTable

PREFIX = "d"  # of automatic ids, which are others than those of examples


def no_documents(snapshot: Snapshot) -> Snapshot:
    """What the documents of a datastore begin with: no rows, no labels, and its width, dtype and kind of index."""
    keys, labels = snapshot.keys[:0].copy(), np.zeros((0, 0), dtype=bool)
    return Snapshot(keys, labels, make_rows(0, []), (), 0, snapshot.options)


def add_documents(
    snapshot: Snapshot,
    buffers: Buffers,
    keys: np.ndarray,
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    ids: Iterable[str] | None = None,
    passages: Passages | None = None,
) -> Snapshot:
    """A snapshot with more documents, after those that it has. No id may be that of an example."""
    documents = snapshot.documents or no_documents(snapshot)
    next_id = documents.next_id
    if ids is None:
        ids, next_id = automatic_ids(len(keys), next_id, documents.rows, snapshot.rows, prefix=PREFIX)
    rows = make_rows(len(keys), ids, texts, text_pairs)
    table = None if passages is None else check_passages(passages, keys)
    return append_documents(snapshot, buffers, keys, rows, table, next_id)


def append_documents(
    snapshot: Snapshot,
    buffers: Buffers,
    keys: np.ndarray,
    rows: pa.Table,
    passages: PassageTable | None,
    next_id: int,
) -> Snapshot:
    """A snapshot with documents that have ids."""
    documents = snapshot.documents or no_documents(snapshot)
    if buffers.documents is None:
        buffers.documents = Buffers(documents)
    labels = np.zeros((len(keys), 0), dtype=bool)
    grown = append(documents, buffers.documents, keys, labels, rows, passages, snapshot.rows, next_id=next_id)
    return replace(snapshot, documents=grown)


def remove_documents(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """A snapshot without some documents."""
    documents = remove_rows(snapshot.documents or no_documents(snapshot), ids)
    return replace(snapshot, documents=documents)


def remove_either(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """A snapshot without some rows, each an example or a document."""
    ids = list(ids)
    documents = set() if snapshot.documents is None else ids_among(ids, snapshot.documents.rows)
    if documents:
        snapshot = remove_documents(snapshot, documents)
    examples = [row_id for row_id in ids if row_id not in documents]
    return remove_rows(snapshot, examples) if examples else snapshot
