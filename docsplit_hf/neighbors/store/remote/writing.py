"""Rows that go into a collection: checked, numbered by their content, written, and what they replace removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..documents import PREFIX
from ..keys.key_matrix import as_matrix
from ..keys.passage_table import take_passages
from ..row_table import ids_among, is_counted
from ..sampling import take_rows, with_ids
from ..snapshot import Buffers, Snapshot, add_rows, empty_snapshot
from .collection import DOCUMENTS, EXAMPLES, PK, REST, Collection
from .rows import DOCUMENT, LOCATING, all_keys, content_numbers, document_key, names_of, repeatable_ids, to_rows

if TYPE_CHECKING:
    from ..datastore import KNNDatastore

_SAME = ("content", "labels", "passages")  # what an added row and one of the same id must share


def new_rows(kind: str, dimension: int, keys: Any, labels: np.ndarray, names: tuple[str, ...], *more: Any) -> Snapshot:
    """New rows as a snapshot of their own, which checks all of them; ``more``: texts, pairs, ids and passages."""
    empty = empty_snapshot(dimension, names, labels.ndim == 2)
    rows = add_rows(empty, Buffers(empty), as_matrix(keys, "keys", dimension), labels, names, *more)
    return rows if more[2] is not None else with_ids(rows, _ids_of_content(rows, kind, {}))


def renumbered(rows: Snapshot, kind: str, times: dict[str, int]) -> Snapshot:
    """Rows of a local datastore: ids that its counter gave are replaced by ids of their content.

    ``times``: how often each was given to the rows before these, to go on from.
    """
    prefix, old = PREFIX if kind == DOCUMENTS else "", rows.rows["id"].to_pylist()
    counted = [is_counted(row_id, rows.next_id, prefix) for row_id in old]
    if not any(counted):
        return rows
    new = iter(_ids_of_content(take_rows(rows, np.flatnonzero(counted)), kind, times))
    return with_ids(rows, [next(new) if was else row_id for row_id, was in zip(old, counted, strict=True)])


def find_rows(
    collection: Collection, kind: str, ids: Iterable[str], fields: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The first rows of documents by their ids."""
    keys = []
    for row_id in dict.fromkeys(ids):
        if not isinstance(row_id, str):
            raise ValueError(f"There is no row with the id {row_id!r}: ids are strings, as add and search give them.")
        keys.append(f"{document_key(kind, row_id)}p0")
    return collection.get(keys, fields or [PK, "id", *_SAME, *LOCATING])


def check_found(ids: Iterable[str], found: list[dict[str, Any]]) -> None:
    """Refuse ids that nothing has."""
    known = {row["id"] for row in found}
    for row_id in ids:
        if row_id not in known:
            raise ValueError(
                f"There is no row with the id {row_id!r}: ids are strings, as add and search give them. What a removal "
                "whose answer was lost has removed is gone."
            )


def put(
    collection: Collection,
    rows: Snapshot,
    kind: str,
    first: int,
    replacing: list[str],
    change: Callable[[Callable[[KNNDatastore], Any]], AbstractContextManager[None]],
) -> list[str]:
    """Write rows, then remove what they replace; ``change`` does the same with the copy. Gives the ids."""
    ids = rows.rows["id"].to_pylist()
    replaced, there = ([row for part in (EXAMPLES, DOCUMENTS) for row in find_rows(collection, part, which)]
                       for which in (replacing, ids))  # fmt: skip
    check_found(replacing, replaced)
    gone = {row[PK][:DOCUMENT] for row in replaced}
    own, rest = to_rows(rows, kind, first)
    new = {row[PK]: row for row in own if row["passage"] == 0}
    for row in there:
        same = (before := new.get(row[PK])) and all(before[name] == row[name] for name in _SAME)
        if row[PK][:DOCUMENT] not in gone and not same:
            raise ValueError(f"The id {row['id']!r} is there already: remove it first, or give another.")
    written = {row[PK] for row in (*own, *rest)}
    doubled = [row["id"] for row in there if row[PK][:DOCUMENT] not in gone]
    with change(lambda copy: _put_into(copy, rows, kind, replacing, doubled)):
        collection.write(REST, rest, len(ids))
        collection.write(kind, own, len(ids))
        collection.delete([key for key in all_keys(replaced) if key not in written])
    return ids


def _ids_of_content(rows: Snapshot, kind: str, times: dict[str, int]) -> list[str]:
    table = rows.rows.to_pydict()
    contents = content_numbers(table["text"], table["text_pair"], rows.keys)
    return repeatable_ids(contents, names_of(rows.labels, rows.label_names), kind, times)


def _put_into(copy: KNNDatastore, rows: Snapshot, kind: str, replacing: list[str], doubled: list[str]) -> None:
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
