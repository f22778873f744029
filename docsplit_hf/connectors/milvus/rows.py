"""Convert documents to rows of a Milvus collection and back, and search them.

A document has one row, with its text and pair, and its file and places, as one JSON string that is divided among some
fields. The partition "about" describes the collection: format, encoder, labels, and a token of the last change.

The primary key of a row is "e" or "d", and a hash of the id. The field "row" has a number: documents are read back in
this order.

In this module, a row is a row of the collection; a row of a ``Snapshot`` is called a document.

A search fetches candidates from Milvus, and ranks them by exact distances as a local datastore does.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from ...arrays.changes import add_document_rows, add_rows, empty_snapshot
from ...arrays.keys import as_queries
from ...arrays.passages import Passages
from ...arrays.row_table import several_passages
from ...arrays.snapshot import SearchResult, Snapshot
from ...content_hash import short_digest
from ...reading.origins import Origin
from .collection import (
    DESCRIPTION,
    FIELDS,
    MAX_FIELD_BYTES,
    MAX_RESULTS,
    NUMBER,
    PK,
    STRINGS,
    TEXT_FIELDS,
    VECTOR,
    Collection,
    Row,
)

FORMAT = "docsplit_hf datastore"
VERSION = 2
EXTRA_CANDIDATES = 16  # fetched beyond k, because the server rounds distances
ID_DIGITS = 16  # hexadecimal digits of the hash in an automatic id
TEXT = TEXT_FIELDS[0]  # the field of short texts
EMPTY_ROW: Row = dict.fromkeys(STRINGS, "") | {NUMBER: 0}


@dataclass(frozen=True, eq=False)
class CollectionDescription:
    """Description of a collection. ``multi_label`` is None before the first labels."""

    dimension: int
    label_names: tuple[str, ...]
    multi_label: bool | None
    probe: np.ndarray | None


def read_description(collection: Collection, dimension: int) -> CollectionDescription | None:
    """Read the description; None if it was not written yet."""
    rows = {row[PK]: row for row in collection.rows(DESCRIPTION, FIELDS)}
    if "about" not in rows:
        return None
    settings = json.loads(rows["about"][TEXT])
    if settings.get("format") != FORMAT or settings.get("version") != VERSION:
        raise ValueError(
            f"{collection!r} has the format {settings.get('format')!r}, version {settings.get('version')!r}, but this "
            f"docsplit_hf reads {FORMAT!r}, version {VERSION}: upgrade docsplit_hf if it is older, or fill "
            "another collection."
        )
    labels = [row for key, row in rows.items() if key.startswith("label-")]
    labels.sort(key=lambda row: (row[NUMBER], row[TEXT]))
    probe = [rows[f"probe-{number}"][VECTOR] for number in range(settings["probe"])]
    return CollectionDescription(
        dimension=dimension,
        label_names=tuple(row[TEXT] for row in labels),
        multi_label=settings["multi_label"],
        probe=np.array(probe, np.float32) if probe else None,
    )


def write_description(collection: Collection, description: CollectionDescription) -> None:
    """Write the description, without the labels."""
    probe = () if description.probe is None else description.probe
    settings = {"format": FORMAT, "version": VERSION, "multi_label": description.multi_label, "probe": len(probe)}
    for number, vector in enumerate(probe):
        collection.write(DESCRIPTION, [_description_row(description, f"probe-{number}", vector=vector)])
    write_change_token(collection, description)
    # The settings come last: a collection without them counts as not described.
    collection.write(DESCRIPTION, [_description_row(description, "about", json.dumps(settings))])


def write_labels(collection: Collection, description: CollectionDescription, names: Iterable[str], first: int) -> None:
    """Write one row for each name of a label, so that two processes can add different names."""
    rows = []
    for number, name in enumerate(names, first):
        rows.append(_description_row(description, f"label-{_digest(name.encode())}", name, number))
    if rows:
        collection.write(DESCRIPTION, rows)


def read_change_token(collection: Collection) -> str:
    """Read the token of the last change; empty before the first one."""
    rows = collection.get(["changed"], [TEXT])
    return rows[0][TEXT] if rows else ""


def write_change_token(collection: Collection, description: CollectionDescription) -> str:
    """Write a new token, which marks a change, and return it."""
    token = uuid.uuid4().hex
    collection.write(DESCRIPTION, [_description_row(description, "changed", token)])
    return token


def _description_row(
    description: CollectionDescription, key: str, text: str = "", number: int = 0, vector: np.ndarray | None = None
) -> Row:
    if vector is None:
        vector = np.zeros(description.dimension, np.float32)
    return EMPTY_ROW | {PK: key, TEXT: text, NUMBER: number, VECTOR: vector}


def primary_key(partition: str, document_id: str) -> str:
    """Return the primary key of a document in the partition "examples" or "documents"."""
    return partition[0] + _digest(document_id.encode())


def content_hashes(
    texts: Sequence[str | None], pairs: Sequence[str | None], embeddings: np.ndarray | None = None
) -> list[str]:
    """Hash the content of each document, hexadecimal: its texts, or its embedding if it has no text."""
    hashes = []
    for place, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        content = json.dumps([text, pair]).encode()
        if text is None and embeddings is not None:
            content = embeddings[place].astype(np.float32).tobytes()
        hashes.append(_digest(content))
    return hashes


def with_ids(documents: Snapshot, ids: Sequence[str | None], partition: str, seen: dict[str, int]) -> Snapshot:
    """Replace the ids of documents; None becomes a hash of the content and the labels.

    ``seen``: how often each hash occurred so far; updated. A repeated hash gets a number.
    """
    import pyarrow as pa

    new_ids = list(ids)
    columns = documents.rows.to_pydict()
    contents = content_hashes(columns["text"], columns["text_pair"], documents.keys)
    for place, names in enumerate(label_names_of_rows(documents.labels, documents.label_names)):
        if new_ids[place] is None:
            content = json.dumps([contents[place], *names])
            document_id = partition[0] + _digest(content.encode())[:ID_DIGITS]  # differs between examples and documents
            seen[document_id] = seen.get(document_id, 0) + 1
            count = seen[document_id]
            new_ids[place] = document_id if count == 1 else f"{document_id}-{count}"
    column = pa.chunked_array([pa.array(new_ids, pa.string())])
    return replace(documents, rows=documents.rows.set_column(0, "id", column))


def label_names_of_rows(labels: np.ndarray, label_names: Sequence[str]) -> list[list[str]]:
    """Return the label names of each row of encoded labels."""
    if labels.ndim == 1:
        return [[label_names[label]] for label in labels.tolist()]
    return [[label_names[i] for i in np.flatnonzero(row)] for row in labels]


def to_rows(snapshot: Snapshot, partition: str, first: int) -> list[Row]:
    """Convert documents to rows, numbered from ``first``."""
    columns = snapshot.rows.to_pydict()
    contents = content_hashes(columns["text"], columns["text_pair"], snapshot.keys)
    labels = label_names_of_rows(snapshot.labels, snapshot.label_names)
    rows = []
    for place, document_id in enumerate(columns["id"]):
        texts = [columns["text"][place], columns["text_pair"][place]]
        if columns["file"][place] is not None:
            texts += [columns["file"][place], columns["places"][place]]
        row = {
            PK: primary_key(partition, document_id),
            "id": document_id,
            "content": contents[place],
            "labels": json.dumps(labels[place]),
            NUMBER: first + place,
            VECTOR: snapshot.keys[place].astype(np.float32),
        }
        rows.append(EMPTY_ROW | row | _text_fields(texts, document_id))
    return rows


def _text_fields(texts: list[str | None], document_id: str) -> dict[str, str]:
    """Divide texts, as JSON, among the fields."""
    unsplit = json.dumps(texts, ensure_ascii=False).encode()
    fields = {}
    for name in TEXT_FIELDS:
        fields[name] = unsplit[:MAX_FIELD_BYTES].decode(errors="ignore")  # a character that is cut goes to the next one
        unsplit = unsplit[len(fields[name].encode()) :]
    if unsplit:
        most = MAX_FIELD_BYTES * len(TEXT_FIELDS)
        raise ValueError(f"The text of {document_id!r} has more bytes than a row of Milvus, {most:,}: shorten it.")
    return fields


def to_snapshot(rows: Iterable[Row], description: CollectionDescription, labeled: bool = True) -> Snapshot:
    """Convert rows to documents, in the order in which they were added."""
    ordered = sorted(rows, key=lambda row: (row[NUMBER], row[PK]))
    embeddings = np.array([row[VECTOR] for row in ordered], np.float32).reshape(-1, description.dimension)
    texts = []
    pairs = []
    origins = []
    for row in ordered:
        text, pair, *origin = json.loads("".join(row[name] for name in TEXT_FIELDS))
        texts.append(text)
        pairs.append(pair)
        origins.append(Origin.from_json(*origin) if origin else None)
    ids = [row["id"] for row in ordered]
    if not labeled:
        empty = empty_snapshot(description.dimension)
        return add_document_rows(empty, embeddings, texts, pairs, ids, origins=origins).documents
    empty = empty_snapshot(
        description.dimension, description.label_names, bool(description.multi_label), probe=description.probe
    )
    labels: list[Any] = [json.loads(row["labels"]) for row in ordered]
    if not description.multi_label:
        labels = [name for (name,) in labels]
    return add_rows(empty, embeddings, labels, texts, pairs, ids, origins=origins)


def refuse_passages(passages: Passages | None) -> None:
    """Refuse texts with several embeddings: a row of a collection has one."""
    if passages is not None and several_passages(passages) is not None:
        raise ValueError(
            "A text has one embedding in a collection of Milvus, and some have several: use another long_documents, or "
            "a KNNDatastore."
        )


def remote_search(
    collection: Collection,
    partition: str,
    dimension: int,
    to_documents: Callable[[list[Row]], Snapshot],
    queries: Any,
    k: int,
) -> SearchResult:
    """Find the nearest documents of a partition: candidates of all queries, ranked by exact distance for each."""
    max_k = MAX_RESULTS - EXTRA_CANDIDATES
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= max_k:
        raise ValueError(f"k must be an integer from 1 to {max_k:,}, got {k!r}.")
    queries = as_queries(queries, "queries", dimension)
    candidates = chain.from_iterable(collection.search(partition, queries, k + EXTRA_CANDIDATES))
    return to_documents(collection.get(list(dict.fromkeys(candidates)), FIELDS)).search(queries, int(k))


def _digest(content: bytes) -> str:
    """Return a hash of 32 hexadecimal digits. Do not change it: existing collections have primary keys made of it."""
    return short_digest(content, size=16).hex()
