"""Rows of a collection: encoding of documents and of the collection's description, and the search among them.

A document has a row for each passage. Its first row has its id, labels and texts. If a document has several passages,
or a text that is too long for a field, the partition "rest" has the document's own key and the rest of the text. The
partition "about" describes the collection: format, encoder, labels, and a token of the last change. A search takes
candidates from Milvus, and searches these as a local datastore does.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...content_hash import short_digest
from ...encoders.chunking import Passages
from ..changes import add_documents, add_rows, empty_snapshot
from ..keys import as_queries
from ..row_table import check_passages, encode_labels
from ..snapshot import ExampleTexts, SearchResult, Snapshot
from .collection import ABOUT, FIELDS, MOST_BYTES, MOST_FOUND, NUMBERS, PK, TEXTS, VECTOR, Collection, Row

FORMAT = "docsplit_hf datastore"
VERSION = 1
DOCUMENT = 33  # characters of a key that identify the document
LOCATING = ("passages", "rest")  # the fields that give the keys of all rows of a document
SPARE = 16  # candidates beyond k: a server's own distances are off by rounding
PER_PASSAGE = 4  # candidates for each wanted row: a row near one passage may be far from the others
EMPTY: Row = dict.fromkeys(TEXTS, "") | dict.fromkeys(NUMBERS, 0)


@dataclass(frozen=True, eq=False)
class About:
    """Description of a collection. ``multi_label`` is None before the first labels."""

    dimension: int
    label_names: tuple[str, ...]
    multi_label: bool | None
    probe: np.ndarray | None


def read_about(collection: Collection, dimension: int) -> About | None:
    """Read the description; None if it was not written yet."""
    rows = {row[PK]: row for row in collection.rows(ABOUT, FIELDS)}
    if "about" not in rows:
        return None
    settings = json.loads(rows["about"]["text"])
    if settings.get("format") != FORMAT or settings.get("version") != VERSION:
        raise ValueError(
            f"{collection!r} has the format {settings.get('format')!r}, version {settings.get('version')!r}, and this "
            f"docsplit_hf reads {FORMAT!r}, version {VERSION}: upgrade docsplit_hf, or take another collection."
        )
    labels = [row for pk, row in rows.items() if pk.startswith("label-")]
    labels.sort(key=lambda row: (row["row"], row["text"]))
    probe = [rows[f"probe-{number}"][VECTOR] for number in range(settings["probe"])]
    return About(
        dimension,
        label_names=tuple(row["text"] for row in labels),
        multi_label=settings["multi_label"],
        probe=np.array(probe, np.float32) if probe else None,
    )


def write_about(collection: Collection, about: About) -> None:
    """Write the description, without the labels."""
    probe = () if about.probe is None else about.probe
    settings = {"format": FORMAT, "version": VERSION, "multi_label": about.multi_label, "probe": len(probe)}
    for number, vector in enumerate(probe):
        collection.write(ABOUT, [_about_row(about, f"probe-{number}", vector=vector)])
    write_changed(collection, about)
    # The settings come last: a collection without them counts as not described.
    collection.write(ABOUT, [_about_row(about, "about", json.dumps(settings))])


def write_labels(collection: Collection, about: About, names: Iterable[str], first: int) -> None:
    """Write names of labels, each as a row: two processes may add different names."""
    rows = []
    for number, name in enumerate(names, first):
        rows.append(_about_row(about, f"label-{_digest(name.encode())}", name, number))
    if rows:
        collection.write(ABOUT, rows)


def read_changed(collection: Collection) -> str:
    """The token of the last change."""
    found = collection.get(["changed"], ["text"])
    return found[0]["text"] if found else ""


def write_changed(collection: Collection, about: About) -> str:
    """Write a token for a change, and return it."""
    token = uuid.uuid4().hex
    collection.write(ABOUT, [_about_row(about, "changed", token)])
    return token


def _about_row(about: About, key: str, text: str = "", number: int = 0, vector: Any = None) -> Row:
    vector = np.zeros(about.dimension, np.float32) if vector is None else vector
    return EMPTY | {PK: key, "text": text, "row": number, VECTOR: vector}


def document_key(kind: str, row_id: str) -> str:
    """The prefix of the keys of all rows of a document; ``kind`` is the partition's name."""
    return kind[0] + _digest(row_id.encode())


def content_numbers(
    texts: Sequence[str | None], pairs: Sequence[str | None], keys: np.ndarray | None = None
) -> list[str]:
    """A hash of the content of each row, hexadecimal: of its texts, or of its key if it has no text."""
    hashes = []
    for row, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        content = json.dumps([text, pair]).encode()
        if text is None and keys is not None:
            content = keys[row].astype(np.float32).tobytes()
        hashes.append(_digest(content))
    return hashes


def with_ids(rows: Snapshot, given: Sequence[str | None], kind: str, times: dict[str, int]) -> Snapshot:
    """Rows with the given ids; None becomes a hash of content and labels, numbered by its ``times`` if it repeats."""
    import pyarrow as pa

    ids = list(given)
    columns = rows.rows.to_pydict()
    contents = content_numbers(columns["text"], columns["text_pair"], rows.keys)
    for place, names in enumerate(names_of(rows.labels, rows.label_names)):
        if ids[place] is None:
            digest = kind[0] + _digest(json.dumps([contents[place], *names]).encode())[:16]
            times[digest] = times.get(digest, 0) + 1
            ids[place] = digest if times[digest] == 1 else f"{digest}-{times[digest]}"
    return replace(rows, rows=rows.rows.set_column(0, "id", pa.chunked_array([pa.array(ids, pa.string())])))


def names_of(labels: np.ndarray, label_names: Sequence[str]) -> list[list[str]]:
    """The names of encoded labels."""
    if labels.ndim == 1:
        return [[label_names[label]] for label in labels.tolist()]
    return [[label_names[i] for i in np.flatnonzero(row)] for row in labels]


def to_rows(snapshot: Snapshot, kind: str, first: int) -> tuple[list[Row], list[Row]]:
    """The rows of documents for their partition and for the partition "rest", numbered from ``first``."""
    columns = snapshot.rows.to_pydict()
    contents = content_numbers(columns["text"], columns["text_pair"], snapshot.keys)
    labels = names_of(snapshot.labels, snapshot.label_names)
    ends = np.cumsum(snapshot.counts)
    rows = []
    rest = []
    for place, row_id in enumerate(columns["id"]):
        document = document_key(kind, row_id)
        count = int(snapshot.counts[place])
        text, *more_text = _parts(json.dumps([columns["text"][place], columns["text_pair"][place]], ensure_ascii=False))
        if count > 1 and not more_text:
            more_text = [""]  # a row for the document's own key
        base = EMPTY | {"row": first + place, "passages": count, "rest": len(more_text)}
        vectors = snapshot.keys[[place]]
        spans = [[0, 0]]
        if snapshot.passages is not None:
            own = slice(ends[place] - count, ends[place])
            vectors = snapshot.passages.embeddings[own]
            spans = snapshot.passages.spans[own].tolist()
        for number, (vector, (start, end)) in enumerate(zip(vectors, spans, strict=True)):
            row = base | {PK: f"{document}p{number}", "passage": number, "start": start, "end": end}
            rows.append(row | {VECTOR: vector.astype(np.float32)})
        rows[-count] |= {"id": row_id, "content": contents[place], "labels": json.dumps(labels[place]), "text": text}
        base |= {VECTOR: snapshot.keys[place].astype(np.float32)}
        rest += [base | {PK: f"{document}r{number}", "text": part} for number, part in enumerate(more_text)]
    return rows, rest


def all_keys(found: Iterable[Row]) -> list[str]:
    """The keys of all rows of some documents, by one row of each; the key of a document's first row comes last."""
    documents = {row[PK][:DOCUMENT]: row for row in found}
    keys = []
    for document, row in documents.items():
        keys += [f"{document}r{number}" for number in range(row["rest"])]
        keys += [f"{document}p{number}" for number in reversed(range(row["passages"]))]
    return keys


def to_snapshot(found: Iterable[Row], about: About, labeled: bool = True) -> Snapshot:
    """Documents of rows, in the order in which they were added, without documents that were written in part."""
    whole = _whole_documents(found)
    keys = [rows["r0" if rows["p0"]["passages"] > 1 else "p0"][VECTOR] for rows in whole]
    keys = np.array(keys, np.float32).reshape(-1, about.dimension)
    texts = []
    pairs = []
    for rows in whole:
        text, pair = _text_and_pair(rows)
        texts.append(text)
        pairs.append(pair)
    ids = [rows["p0"]["id"] for rows in whole]
    passages = _passages(whole)
    if not labeled:
        empty = empty_snapshot(about.dimension)
        return add_documents(empty, keys, texts, pairs, ids, passages).documents
    empty = empty_snapshot(about.dimension, about.label_names, bool(about.multi_label), probe=about.probe)
    return add_rows(empty, keys, _names_of_labels(whole, about), texts, pairs, ids, passages)


def to_texts(found: Iterable[Row], about: About) -> ExampleTexts:
    """Texts and labels of examples, from rows without vectors, as ``to_snapshot`` has them."""
    whole = _whole_documents(found)
    texts = []
    pairs = []
    for rows in whole:
        text, pair = _text_and_pair(rows)
        texts.append(text)
        pairs.append(pair)
    labels, _ = encode_labels(_names_of_labels(whole, about), about.label_names, bool(about.multi_label))
    return ExampleTexts(texts, pairs, labels)


def _whole_documents(found: Iterable[Row]) -> list[dict[str, Row]]:
    """Rows by document, in the order in which these were added, without documents that were written in part."""
    by_document: dict[str, dict[str, Row]] = {}
    for row in found:
        by_document.setdefault(row[PK][:DOCUMENT], {})[row[PK][DOCUMENT:]] = row
    whole = [rows for rows in by_document.values() if _is_whole(rows)]
    return sorted(whole, key=lambda rows: (rows["p0"]["row"], rows["p0"][PK]))


def _names_of_labels(documents: list[dict[str, Row]], about: About) -> list[Any]:
    """The label of each document, or a list of labels if documents may have several."""
    labels = [json.loads(rows["p0"]["labels"]) for rows in documents]
    return labels if about.multi_label else [name for (name,) in labels]


def _is_whole(rows: dict[str, Row]) -> bool:
    first = rows.get("p0")
    return first is not None and len(rows) == first["passages"] + first["rest"]


def _text_and_pair(rows: dict[str, Row]) -> list[str | None]:
    parts = [rows["p0"]["text"]]
    for number in range(rows["p0"]["rest"]):
        parts.append(rows[f"r{number}"]["text"])
    return json.loads("".join(parts))


def _passages(documents: list[dict[str, Row]]) -> Passages | None:
    """The passages of documents; None if each has one."""
    counts = [rows["p0"]["passages"] for rows in documents]
    if max(counts, default=1) <= 1:
        return None
    passages = []
    for rows, count in zip(documents, counts, strict=True):
        passages += [rows[f"p{number}"] for number in range(count)]
    return Passages(
        np.array([passage[VECTOR] for passage in passages], np.float32),
        np.array(counts),
        np.array([[passage["start"], passage["end"]] for passage in passages], dtype=np.int64),
    )


def _parts(text: str) -> Iterator[str]:
    """Split a text into parts that fit into a field."""
    rest = text.encode()
    while rest:
        part = rest[:MOST_BYTES].decode(errors="ignore")  # leaves a character cut at the end to the next part
        yield part
        rest = rest[len(part.encode()) :]


def remote_search(
    collection: Collection,
    partition: str,
    dimension: int,
    decoded: Callable[[list[Row]], Snapshot],
    queries: Any,
    k: int,
    passages: Passages | None,
) -> SearchResult:
    """Find the nearest documents of a partition, by exact distances of each query to the candidates of all queries."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= MOST_FOUND - SPARE:
        raise ValueError(f"k must be an integer from 1 to {MOST_FOUND - SPARE:,}, got {k!r}.")
    queries = as_queries(queries, "queries", dimension)
    vectors = queries
    counts = np.ones(len(queries), np.int64)
    wanted = k + SPARE
    if passages is not None:
        checked = check_passages(passages, queries)
        vectors = checked.embeddings
        counts = checked.counts
        wanted = PER_PASSAGE * k + SPARE
    vectors = np.asarray(vectors, dtype=np.float32)
    candidates = _candidates(collection, partition, vectors, counts, min(wanted, MOST_FOUND))
    first_rows = collection.get([f"{document}p0" for document in candidates], FIELDS)
    fetched = {row[PK] for row in first_rows}
    other_rows = collection.get([key for key in all_keys(first_rows) if key not in fetched], FIELDS)
    return decoded([*first_rows, *other_rows]).search(queries, int(k), passages)


def _candidates(
    collection: Collection, partition: str, vectors: np.ndarray, counts: np.ndarray, wanted: int
) -> list[str]:
    """Key prefixes of near documents: ``wanted`` for each query, or all if there are fewer.

    ``vectors``: ``(P, D)``, ``counts[i]`` of them for query i.
    """
    found: dict[str, None] = {}
    ends = np.cumsum(counts)
    pending = np.arange(len(counts))  # queries with too few documents
    limit = wanted
    while len(pending):
        places = np.concatenate([np.arange(ends[query] - counts[query], ends[query]) for query in pending])
        hits = collection.search(partition, vectors[places], limit)
        still_pending = []
        for query in pending:
            documents: dict[str, None] = {}
            has_more = False
            for _ in range(counts[query]):
                keys = next(hits)
                has_more |= len(keys) == limit
                documents |= dict.fromkeys(key[:DOCUMENT] for key in keys)
            found |= documents
            # Too few documents if many passages of the same ones are near.
            if has_more and len(documents) < wanted and limit < MOST_FOUND:
                still_pending.append(query)
        pending = np.array(still_pending, dtype=np.int64)
        limit = min(4 * limit, MOST_FOUND)
    return list(found)


def _digest(content: bytes) -> str:
    """A hash of 32 hexadecimal digits: keys have at most 64 characters. Existing collections have these."""
    return short_digest(content, size=16).hex()
