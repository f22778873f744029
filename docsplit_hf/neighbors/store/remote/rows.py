"""Documents as rows of a collection, and back: one row for each passage, and the rest of what is too long for these.

The first row of a document has its id, labels and texts. Where it has several passages, or a text that is longer than a
field may be, the partition "rest" has the document's own key and the rest of the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....models.inference.long_documents import Passages
from ..labels import encode_labels
from ..snapshot import Buffers, Snapshot, add_rows, empty_snapshot
from .collection import MOST_BYTES, PK, VECTOR

if TYPE_CHECKING:
    from .about import About

DOCUMENT = 33  # characters of a key that name the document
LOCATING = ("passages", "rest")  # the fields by which all rows of a document are found


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


def repeatable_ids(
    contents: Sequence[str], labels: Sequence[Sequence[str]], kind: str, times: dict[str, int]
) -> list[str]:
    """Ids that the same rows get again: of content and labels; equal rows are numbered, on from ``times``."""
    ids = []
    for content, names in zip(contents, labels, strict=True):
        digest = kind[0] + _digest(json.dumps([content, *names]).encode())[:16]
        times[digest] = times.get(digest, 0) + 1
        ids.append(digest if times[digest] == 1 else f"{digest}-{times[digest]}")
    return ids


def names_of(labels: np.ndarray, label_names: Sequence[str]) -> list[list[str]]:
    """The names of encoded labels."""
    if labels.ndim == 1:
        return [[label_names[label]] for label in labels.tolist()]
    return [[label_names[i] for i in np.flatnonzero(row)] for row in labels]


def to_rows(snapshot: Snapshot, kind: str, first: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of documents for their partition and for the partition "rest"; they are numbered from ``first``."""
    table = snapshot.rows.to_pydict()
    contents = content_numbers(table["text"], table["text_pair"], snapshot.keys)
    labels, ends = names_of(snapshot.labels, snapshot.label_names), np.cumsum(snapshot.counts)
    rows, rest = [], []
    for place, row_id in enumerate(table["id"]):
        key, count = document_key(kind, row_id), int(snapshot.counts[place])
        parts, pair_parts = (_parts(table[name][place]) for name in ("text", "text_pair"))
        more = max(len(parts), len(pair_parts), 2 if count > 1 else 1) - 1
        base = {"row": first + place, "passages": count, "rest": more, "start": 0, "end": 0, "passage": 0}
        base |= {"id": "", "content": "", "labels": "", "text": None, "text_pair": None}
        vectors, spans = snapshot.keys[[place]], [[0, 0]]
        if snapshot.passages is not None:
            own = slice(ends[place] - count, ends[place])
            vectors, spans = snapshot.passages.keys[own], snapshot.passages.spans[own].tolist()
        for number, (vector, (start, end)) in enumerate(zip(vectors, spans, strict=True)):
            row = base | {PK: f"{key}p{number}", "passage": number, "start": start, "end": end}
            rows.append(row | {VECTOR: vector.astype(np.float32)})
        first_row = rows[-count]
        first_row |= {"id": row_id, "content": contents[place], "labels": json.dumps(labels[place])}
        first_row |= {"text": parts[0], "text_pair": pair_parts[0]}
        for number in range(more):
            long = {"text": _part(parts, number + 1), "text_pair": _part(pair_parts, number + 1)}
            rest.append(base | long | {PK: f"{key}r{number}", VECTOR: snapshot.keys[place].astype(np.float32)})
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
    names, several = (about.label_names, bool(about.multi_label)) if labeled else ((), True)
    empty = empty_snapshot(about.dimension, names, several, probe=about.probe if labeled else None)
    firsts = [rows["p0"] for rows in whole]
    labels = [json.loads(row["labels"]) for row in firsts]
    encoded, names = encode_labels(labels if several else [given[0] for given in labels], names, several)
    counts = np.array([row["passages"] for row in firsts], dtype=np.int64)
    passages = [rows[f"p{number}"] for rows, count in zip(whole, counts, strict=True) for number in range(count)]
    keys = [rows["r0" if rows["p0"]["passages"] > 1 else "p0"][VECTOR] for rows in whole]
    return add_rows(
        empty, Buffers(empty), _vectors(keys, about.dimension), encoded, names,
        *([_joined(rows, name) for rows in whole] for name in ("text", "text_pair")),
        [row["id"] for row in firsts],
        Passages(_vectors([row[VECTOR] for row in passages], about.dimension), counts, _spans(passages))
        if counts.max(initial=1) > 1 else None,
    )  # fmt: skip


def _is_whole(rows: dict[str, Any]) -> bool:
    first = rows.get("p0")
    return first is not None and len(rows) == first["passages"] + first["rest"]


def _joined(rows: dict[str, Any], name: str) -> str | None:
    text = rows["p0"][name]
    return text and text + "".join(rows[f"r{i}"][name] or "" for i in range(rows["p0"]["rest"]))


def _vectors(vectors: list[Any], dimension: int) -> np.ndarray:
    return np.array(vectors, dtype=np.float32).reshape(-1, dimension)


def _spans(passages: list[dict[str, Any]]) -> np.ndarray:
    return np.array([[row["start"], row["end"]] for row in passages], dtype=np.int64).reshape(-1, 2)


def _parts(text: str | None) -> list[str | None]:
    """A text in parts that fit into a field each; at least one."""
    if text is None or len(text.encode()) <= MOST_BYTES:
        return [text]
    parts, rest = [], text.encode()
    while rest:
        end = min(MOST_BYTES, len(rest))
        while end < len(rest) and rest[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        parts.append(rest[:end].decode())
        rest = rest[end:]
    return parts


def _part(parts: list[str | None], number: int) -> str | None:
    return parts[number] if number < len(parts) else None


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
