"""What stands in a collection: one row for each passage, the rest of what is too long for these, and what it is.

The first row of a document has its id, labels and texts. Where it has several passages, or a text that is longer than a
field may be, the partition "rest" has the document's own key and the rest of the text. The partition "about" has what
the collection says of itself: format, encoder, labels, and a token of the last change. A search takes candidates from
Milvus, and of these the nearest as a local datastore finds them.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....models.inference.long_documents import Passages
from ..changes import add_documents, add_rows, empty_snapshot
from ..keys import as_queries
from ..row_table import check_passages
from ..snapshot import Neighbors, Snapshot
from .collection import ABOUT, FIELDS, MOST_BYTES, MOST_FOUND, NUMBERS, PK, TEXTS, VECTOR, Collection

FORMAT, VERSION = "docsplit_hf datastore", 1
DOCUMENT = 33  # characters of a key that name the document
LOCATING = ("passages", "rest")  # the fields by which all rows of a document are found
SPARE = 16  # candidates beyond k: a server's own distances are off by rounding
PER_PASSAGE = 4  # candidates for each row that is wanted: what is near by one passage need not be by several
EMPTY = dict.fromkeys(TEXTS, "") | dict.fromkeys(NUMBERS, 0)


@dataclass(frozen=True, eq=False)
class About:
    """What a collection says of itself. ``multi_label`` is None before the first labels."""

    dimension: int
    label_names: tuple[str, ...]
    multi_label: bool | None
    probe: np.ndarray | None


def read_about(collection: Collection, dimension: int) -> About | None:
    """What is there; None where nothing was written yet."""
    rows = {row[PK]: row for row in collection.rows(ABOUT, FIELDS)}
    if "about" not in rows:
        return None
    settings = json.loads(rows["about"]["text"])
    if settings.get("format") != FORMAT or settings.get("version") != VERSION:
        raise ValueError(
            f"{collection!r} says {settings.get('format')!r}, version {settings.get('version')!r}, and this "
            f"docsplit_hf reads {FORMAT!r}, version {VERSION}: upgrade docsplit_hf, or take another collection."
        )
    names = [name for _, name in sorted((row["row"], row["text"]) for pk, row in rows.items() if pk[:6] == "label-")]
    probe = [rows[f"probe-{i}"][VECTOR] for i in range(settings["probe"])]
    return About(dimension, tuple(names), settings["multi_label"], np.array(probe, np.float32) if probe else None)


def write_about(collection: Collection, about: About) -> None:
    """Write all but the labels."""
    probe = () if about.probe is None else about.probe
    settings = {"format": FORMAT, "version": VERSION, "multi_label": about.multi_label, "probe": len(probe)}
    for number, vector in enumerate(probe):
        collection.write(ABOUT, [_about_row(about, f"probe-{number}", vector=vector)])
    write_changed(collection, about)
    # The settings are the last: without them, nothing is there.
    collection.write(ABOUT, [_about_row(about, "about", json.dumps(settings))])


def write_labels(collection: Collection, about: About, names: Iterable[str], first: int) -> None:
    """Write names of labels, each as a row: two processes may add different ones."""
    if rows := [_about_row(about, f"label-{_digest(name.encode())}", name, first + i) for i, name in enumerate(names)]:
        collection.write(ABOUT, rows)


def read_changed(collection: Collection) -> str:
    """The token of the last change."""
    found = collection.get(["changed"], ["text"])
    return found[0]["text"] if found else ""


def write_changed(collection: Collection, about: About) -> str:
    """Say that something changed; gives the token."""
    token = uuid.uuid4().hex
    collection.write(ABOUT, [_about_row(about, "changed", token)])
    return token


def _about_row(about: About, key: str, text: str = "", number: int = 0, vector: Any = None) -> dict[str, Any]:
    vector = np.zeros(about.dimension, np.float32) if vector is None else vector
    return EMPTY | {PK: key, "text": text, "row": number, VECTOR: vector}


def document_key(kind: str, row_id: str) -> str:
    """What the keys of all rows of a document begin with; ``kind`` is the partition's name."""
    return kind[0] + _digest(row_id.encode())


def content_numbers(
    texts: Sequence[str | None], pairs: Sequence[str | None], keys: np.ndarray | None = None
) -> list[str]:
    """A number for the content of each row, hexadecimal: of its texts, or of its key where it has none."""
    return [
        _digest(keys[row].astype(np.float32).tobytes())
        if text is None and keys is not None
        else _digest(json.dumps([text, pair]).encode())
        for row, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]


def with_ids(rows: Snapshot, given: Sequence[str | None], kind: str, times: dict[str, int]) -> Snapshot:
    """Rows with the ids that are given; for None one of content and labels, and of how many ``times`` it was given."""
    import pyarrow as pa

    ids, columns = list(given), rows.rows.to_pydict()
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


def to_rows(snapshot: Snapshot, kind: str, first: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of documents for their partition and for the partition "rest"; they are numbered from ``first``."""
    columns, counts = snapshot.rows.to_pydict(), snapshot.counts
    contents = content_numbers(columns["text"], columns["text_pair"], snapshot.keys)
    labels, ends = names_of(snapshot.labels, snapshot.label_names), np.cumsum(counts)
    rows, rest = [], []
    for place, row_id in enumerate(columns["id"]):
        key, count = document_key(kind, row_id), int(counts[place])
        text, *more = _parts(json.dumps([columns["text"][place], columns["text_pair"][place]], ensure_ascii=False))
        more = more or [""] * (count > 1)
        base = EMPTY | {"row": first + place, "passages": count, "rest": len(more)}
        vectors, spans = snapshot.keys[[place]], [[0, 0]]
        if snapshot.passages is not None:
            own = slice(ends[place] - count, ends[place])
            vectors, spans = snapshot.passages.embeddings[own], snapshot.passages.spans[own].tolist()
        for number, (vector, (start, end)) in enumerate(zip(vectors, spans, strict=True)):
            row = base | {PK: f"{key}p{number}", "passage": number, "start": start, "end": end}
            rows.append(row | {VECTOR: vector.astype(np.float32)})
        rows[-count] |= {"id": row_id, "content": contents[place], "labels": json.dumps(labels[place]), "text": text}
        base |= {VECTOR: snapshot.keys[place].astype(np.float32)}
        rest += [base | {PK: f"{key}r{number}", "text": part} for number, part in enumerate(more)]
    return rows, rest


def all_keys(found: Iterable[dict[str, Any]]) -> list[str]:
    """The keys of all rows of some documents, of each of which a row was found; the first row's is the last one."""
    documents = {row[PK][:DOCUMENT]: row for row in found}
    keys = []
    for document, row in documents.items():
        keys += [f"{document}r{number}" for number in range(row["rest"])]
        keys += [f"{document}p{number}" for number in reversed(range(row["passages"]))]
    return keys


def to_snapshot(found: Iterable[dict[str, Any]], about: About, labeled: bool = True) -> Snapshot:
    """Documents of rows, in the order in which they were added. One that was written in part is not there."""
    of_documents: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found:
        of_documents.setdefault(row[PK][:DOCUMENT], {})[row[PK][DOCUMENT:]] = row
    whole = [rows for rows in of_documents.values() if _is_whole(rows)]
    whole.sort(key=lambda rows: (rows["p0"]["row"], rows["p0"][PK]))
    counts = [rows["p0"]["passages"] for rows in whole]
    keys = [rows["r0" if rows["p0"]["passages"] > 1 else "p0"][VECTOR] for rows in whole]
    texts = [_texts(rows) for rows in whole]
    columns = [[text for text, _ in texts], [pair for _, pair in texts], [rows["p0"]["id"] for rows in whole]]
    passages = None
    if max(counts, default=1) > 1:
        cut = [rows[f"p{number}"] for rows, count in zip(whole, counts, strict=True) for number in range(count)]
        spans = np.array([[row["start"], row["end"]] for row in cut], dtype=np.int64)
        passages = Passages(np.array([row[VECTOR] for row in cut], np.float32), np.array(counts), spans)
    keys = np.array(keys, np.float32).reshape(-1, about.dimension)
    if not labeled:
        return add_documents(empty_snapshot(about.dimension), keys, *columns, passages).documents
    labels = [json.loads(rows["p0"]["labels"]) for rows in whole]
    empty = empty_snapshot(about.dimension, about.label_names, bool(about.multi_label), probe=about.probe)
    return add_rows(empty, keys, labels if about.multi_label else [name for (name,) in labels], *columns, passages)


def _is_whole(rows: dict[str, Any]) -> bool:
    first = rows.get("p0")
    return first is not None and len(rows) == first["passages"] + first["rest"]


def _texts(rows: dict[str, Any]) -> list[str | None]:
    return json.loads("".join(rows[key]["text"] for key in ["p0", *(f"r{i}" for i in range(rows["p0"]["rest"]))]))


def _parts(text: str) -> Iterator[str]:
    """A text in parts that fit into a field each."""
    rest = text.encode()
    while rest:
        part = rest[:MOST_BYTES].decode(errors="ignore")  # not the beginning of a character at the end
        yield part
        rest = rest[len(part.encode()) :]


def remote_search(
    collection: Collection,
    partition: str,
    dimension: int,
    decoded: Callable[[list[dict[str, Any]]], Snapshot],
    queries: Any,
    k: int,
    passages: Passages | None,
) -> Neighbors:
    """The nearest documents of a partition. Each query is compared with the candidates of all of them, exactly."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= MOST_FOUND - SPARE:
        raise ValueError(f"k must be an integer from 1 to {MOST_FOUND - SPARE:,}, got {k!r}.")
    queries = as_queries(queries, "queries", dimension)
    asked = None if passages is None else check_passages(passages, queries)
    vectors, counts = (queries, np.ones(len(queries), np.int64)) if asked is None else (asked.embeddings, asked.counts)
    wanted = min((k if asked is None else PER_PASSAGE * k) + SPARE, MOST_FOUND)
    near = _candidates(collection, partition, np.asarray(vectors, dtype=np.float32), counts, wanted)
    firsts = collection.get([f"{document}p0" for document in near], FIELDS)
    there = {row[PK] for row in firsts}
    others = collection.get([key for key in all_keys(firsts) if key not in there], FIELDS)
    return decoded([*firsts, *others]).search(queries, int(k), passages)


def _candidates(
    collection: Collection, partition: str, vectors: np.ndarray, counts: np.ndarray, wanted: int
) -> list[str]:
    """What the keys of near documents begin with: as many for each query as are wanted, if there are so many."""
    found: dict[str, None] = {}
    ends, pending, limit = np.cumsum(counts), np.arange(len(counts)), wanted
    while len(pending):
        places = np.concatenate([np.arange(ends[query] - counts[query], ends[query]) for query in pending])
        hits = collection.search(partition, vectors[places], limit)
        short = []
        for query in pending:
            own, full = {}, False
            for _ in range(counts[query]):
                keys = next(hits)
                full |= len(keys) == limit
                own |= dict.fromkeys(key[:DOCUMENT] for key in keys)
            found |= own
            if full and len(own) < wanted and limit < MOST_FOUND:  # many passages of a few documents are near
                short.append(query)
        pending, limit = np.array(short, dtype=np.int64), min(4 * limit, MOST_FOUND)
    return list(found)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
