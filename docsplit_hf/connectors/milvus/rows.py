"""Convert documents to rows of a Milvus collection and back, and search them.

A document has one row per passage. Its first row holds its id, labels and text. If a document has several passages, or
a text too long for one field, the partition "rest" holds the embedding of the whole document and the rest of its text.
The partition "about" describes the collection: format, encoder, labels, and a token of the last change.

The primary key of a row is a prefix that identifies the document, followed by "p" and the number of the passage, or by
"r" and the number of the row in "rest". The field "row" holds the position of the document: documents are
read back in this order.

In this module, a row is a row of the collection; a row of a ``Snapshot`` is called a document.

A search fetches candidates from Milvus, and ranks them by exact distances as a local datastore does.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...arrays.changes import add_document_rows, add_rows, empty_snapshot
from ...arrays.keys import as_queries
from ...arrays.passages import Passages
from ...arrays.row_table import check_passages
from ...arrays.snapshot import SearchResult, Snapshot
from ...content_hash import short_digest
from ...reading.origins import Origin
from .collection import DESCRIPTION, FIELDS, MAX_FIELD_BYTES, MAX_RESULTS, NUMBERS, PK, TEXTS, VECTOR, Collection, Row

FORMAT = "docsplit_hf datastore"
VERSION = 1
PREFIX_LENGTH = 33  # characters of a primary key that identify the document
KEY_FIELDS = ("passages", "rest")  # row counts, enough to reconstruct all primary keys
EXTRA_CANDIDATES = 16  # fetched beyond k, because the server rounds distances
CANDIDATES_PER_RESULT = 4  # for queries of several passages: a document near one passage may be far from the others
LIMIT_GROWTH = 4  # factor for the number of hits when a search found too few documents
ID_DIGITS = 16  # hexadecimal digits of the hash in an automatic id
EMPTY_ROW: Row = dict.fromkeys(TEXTS, "") | dict.fromkeys(NUMBERS, 0)


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
    settings = json.loads(rows["about"]["text"])
    if settings.get("format") != FORMAT or settings.get("version") != VERSION:
        raise ValueError(
            f"{collection!r} has the format {settings.get('format')!r}, version {settings.get('version')!r}, but this "
            f"docsplit_hf reads {FORMAT!r}, version {VERSION}: upgrade docsplit_hf, or use another collection."
        )
    labels = [row for primary_key, row in rows.items() if primary_key.startswith("label-")]
    labels.sort(key=lambda row: (row["row"], row["text"]))
    probe = [rows[f"probe-{number}"][VECTOR] for number in range(settings["probe"])]
    return CollectionDescription(
        dimension=dimension,
        label_names=tuple(row["text"] for row in labels),
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
        primary_key = f"label-{_digest(name.encode())}"
        rows.append(_description_row(description, primary_key, name, number))
    if rows:
        collection.write(DESCRIPTION, rows)


def read_change_token(collection: Collection) -> str:
    """Read the token of the last change; empty before the first one."""
    rows = collection.get(["changed"], ["text"])
    return rows[0]["text"] if rows else ""


def write_change_token(collection: Collection, description: CollectionDescription) -> str:
    """Write a new token, which marks a change, and return it."""
    token = uuid.uuid4().hex
    collection.write(DESCRIPTION, [_description_row(description, "changed", token)])
    return token


def _description_row(
    description: CollectionDescription,
    primary_key: str,
    text: str = "",
    number: int = 0,
    vector: np.ndarray | None = None,
) -> Row:
    if vector is None:
        vector = np.zeros(description.dimension, np.float32)
    return EMPTY_ROW | {PK: primary_key, "text": text, "row": number, VECTOR: vector}


def document_key_prefix(partition: str, document_id: str) -> str:
    """Return the prefix of the primary keys of a document's rows: "e" or "d", and a hash of its id.

    ``partition``: "examples" or "documents", which have different initials.
    """
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


def to_rows(snapshot: Snapshot, partition: str, first: int) -> tuple[list[Row], list[Row]]:
    """Convert documents to rows for their partition and for the partition "rest", numbered from ``first``."""
    columns = snapshot.rows.to_pydict()
    contents = content_hashes(columns["text"], columns["text_pair"], snapshot.keys)
    labels = label_names_of_rows(snapshot.labels, snapshot.label_names)
    ends = np.cumsum(snapshot.counts)
    rows = []
    rest_rows = []
    for place, document_id in enumerate(columns["id"]):
        prefix = document_key_prefix(partition, document_id)
        passage_count = int(snapshot.counts[place])
        texts = [columns["text"][place], columns["text_pair"][place]]
        if columns["file"][place] is not None:
            texts += [columns["file"][place], columns["places"][place]]
        parts = _parts(json.dumps(texts, ensure_ascii=False))
        other_parts = parts[1:]
        if passage_count > 1 and not other_parts:
            other_parts = [""]  # a row for the embedding of the whole document
        base = EMPTY_ROW | {"row": first + place, "passages": passage_count, "rest": len(other_parts)}
        vectors = snapshot.keys[[place]]
        spans = [[0, 0]]
        if snapshot.passages is not None:
            own = slice(ends[place] - passage_count, ends[place])
            vectors = snapshot.passages.embeddings[own]
            spans = snapshot.passages.spans[own].tolist()
        document_rows = []
        for number, (vector, (start, end)) in enumerate(zip(vectors, spans, strict=True)):
            row = base | {PK: f"{prefix}p{number}", "passage": number, "start": start, "end": end}
            document_rows.append(row | {VECTOR: vector.astype(np.float32)})
        # Only the first row holds what belongs to the whole document.
        document_rows[0] |= {
            "id": document_id,
            "content": contents[place],
            "labels": json.dumps(labels[place]),
            "text": parts[0],
        }
        rows += document_rows
        base |= {VECTOR: snapshot.keys[place].astype(np.float32)}
        for number, part in enumerate(other_parts):
            rest_rows.append(base | {PK: f"{prefix}r{number}", "text": part})
    return rows, rest_rows


def all_primary_keys(rows: Iterable[Row]) -> list[str]:
    """Return the primary keys of all rows of some documents, given one row of each document.

    The first row of a document comes last: a removal that is interrupted leaves it, so that a repeated removal still
    finds the other rows.
    """
    row_of_document = {row[PK][:PREFIX_LENGTH]: row for row in rows}
    primary_keys = []
    for prefix, row in row_of_document.items():
        primary_keys += [f"{prefix}r{number}" for number in range(row["rest"])]
        primary_keys += [f"{prefix}p{number}" for number in reversed(range(row["passages"]))]
    return primary_keys


def to_snapshot(rows: Iterable[Row], description: CollectionDescription, labeled: bool = True) -> Snapshot:
    """Convert rows to documents, in the order in which they were added; leave out partly written documents."""
    documents = _whole_documents(rows)
    # With several passages, the embedding of the whole document is in the partition "rest".
    wholes = [document["r0" if document["p0"]["passages"] > 1 else "p0"] for document in documents]
    embeddings = np.array([row[VECTOR] for row in wholes], np.float32).reshape(-1, description.dimension)
    texts = []
    pairs = []
    origins = []
    for document in documents:
        text, pair, *origin = _text_and_pair(document)
        texts.append(text)
        pairs.append(pair)
        origins.append(Origin.from_json(*origin) if origin else None)
    ids = [document["p0"]["id"] for document in documents]
    passages = _passages(documents)
    if not labeled:
        empty = empty_snapshot(description.dimension)
        return add_document_rows(empty, embeddings, texts, pairs, ids, passages, origins=origins).documents
    empty = empty_snapshot(
        description.dimension, description.label_names, bool(description.multi_label), probe=description.probe
    )
    labels: list[Any] = [json.loads(rows["p0"]["labels"]) for rows in documents]
    if not description.multi_label:
        labels = [name for (name,) in labels]
    return add_rows(empty, embeddings, labels, texts, pairs, ids, passages, origins=origins)


def _whole_documents(found: Iterable[Row]) -> list[dict[str, Row]]:
    """Rows by document, in the order in which these were added, without documents that were written in part."""
    by_document: dict[str, dict[str, Row]] = {}
    for row in found:
        by_document.setdefault(row[PK][:PREFIX_LENGTH], {})[row[PK][PREFIX_LENGTH:]] = row
    whole = [rows for rows in by_document.values() if _is_whole(rows)]
    return sorted(whole, key=lambda rows: (rows["p0"]["row"], rows["p0"][PK]))


def _is_whole(document: dict[str, Row]) -> bool:
    """Whether all rows of a document are there.

    ``document`` maps key suffixes ("p0", "r1") to rows.
    """
    first = document.get("p0")
    return first is not None and len(document) == first["passages"] + first["rest"]


def _text_and_pair(document: dict[str, Row]) -> list[str | None]:
    """The text and its pair; also its file and places (JSON), if it comes from a file."""
    parts = [document["p0"]["text"]]
    for number in range(document["p0"]["rest"]):
        parts.append(document[f"r{number}"]["text"])
    return json.loads("".join(parts))


def _passages(documents: list[dict[str, Row]]) -> Passages | None:
    """The passages of documents; None if each has one."""
    counts = [document["p0"]["passages"] for document in documents]
    if max(counts, default=1) <= 1:
        return None
    passages = []
    for document, count in zip(documents, counts, strict=True):
        passages += [document[f"p{number}"] for number in range(count)]
    return Passages(
        embeddings=np.array([passage[VECTOR] for passage in passages], np.float32),
        counts=np.array(counts),
        spans=np.array([[passage["start"], passage["end"]] for passage in passages], dtype=np.int64),
    )


def _parts(text: str) -> list[str]:
    """Split a text into parts that fit into a field."""
    parts = []
    unsplit = text.encode()
    while unsplit:
        part = unsplit[:MAX_FIELD_BYTES].decode(errors="ignore")  # a character cut at the end goes to the next part
        parts.append(part)
        unsplit = unsplit[len(part.encode()) :]
    return parts


def remote_search(
    collection: Collection,
    partition: str,
    dimension: int,
    to_documents: Callable[[list[Row]], Snapshot],
    queries: Any,
    k: int,
    passages: Passages | None,
) -> SearchResult:
    """Find the nearest documents of a partition.

    The candidates of all queries are pooled and reranked by exact distance for each query.
    """
    max_k = MAX_RESULTS - EXTRA_CANDIDATES
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= max_k:
        raise ValueError(f"k must be an integer from 1 to {max_k:,}, got {k!r}.")
    queries = as_queries(queries, "queries", dimension)
    vectors = queries
    counts = np.ones(len(queries), np.int64)
    wanted = k + EXTRA_CANDIDATES
    if passages is not None:
        checked = check_passages(passages, queries)
        vectors = checked.embeddings
        counts = checked.counts
        wanted = CANDIDATES_PER_RESULT * k + EXTRA_CANDIDATES
    vectors = np.asarray(vectors, dtype=np.float32)
    prefixes = _candidates(collection, partition, vectors, counts, min(wanted, MAX_RESULTS))
    first_rows = collection.get([f"{prefix}p0" for prefix in prefixes], FIELDS)
    fetched = {row[PK] for row in first_rows}
    missing = [primary_key for primary_key in all_primary_keys(first_rows) if primary_key not in fetched]
    other_rows = collection.get(missing, FIELDS)
    return to_documents([*first_rows, *other_rows]).search(queries, int(k), passages)


def _candidates(
    collection: Collection, partition: str, vectors: np.ndarray, counts: np.ndarray, wanted: int
) -> list[str]:
    """Return key prefixes of near documents: ``wanted`` for each query, or all if there are fewer.

    ``vectors``: ``(P, D)``, ``counts[i]`` of them for query i.
    """
    candidates: dict[str, None] = {}  # a dictionary keeps the order
    ends = np.cumsum(counts)
    pending = np.arange(len(counts))  # queries with too few documents
    limit = wanted
    while len(pending):
        places = np.concatenate([np.arange(ends[query] - counts[query], ends[query]) for query in pending])
        hits = collection.search(partition, vectors[places], limit)
        still_pending = []
        for query in pending:
            prefixes: set[str] = set()
            has_more = False
            for _ in range(counts[query]):
                primary_keys = next(hits)
                has_more = has_more or len(primary_keys) == limit
                for primary_key in primary_keys:
                    prefix = primary_key[:PREFIX_LENGTH]
                    prefixes.add(prefix)
                    candidates[prefix] = None
            # The nearest passages may belong to a few documents: fetch more of them.
            if has_more and len(prefixes) < wanted and limit < MAX_RESULTS:
                still_pending.append(query)
        pending = np.array(still_pending, dtype=np.int64)
        limit = min(LIMIT_GROWTH * limit, MAX_RESULTS)
    return list(candidates)


def _digest(content: bytes) -> str:
    """Return a hash of 32 hexadecimal digits. Do not change it: existing collections have primary keys made of it."""
    return short_digest(content, size=16).hex()
