"""Functions that make a new snapshot: add, remove and relabel rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .index import EXACT, IndexOptions, fewest_rows
from .keys import as_matrix, as_queries, check_finite, freeze, with_rows
from .mapped_keys import MappedKeys
from .passages import Passages, check_passages, several_passages, take_passages, whole_rows
from .row_table import append_rows, counted_ids, encode_labels, ids_among, make_rows, without
from .snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from ..reading.origins import Origin

DOCUMENT_PREFIX = "d"  # of automatic ids of documents; those of examples have none
NO_ROW = "There is no row with the id {!r}: pass ids, which are strings, as add and search return them."


def empty_snapshot(
    dimension: int,
    label_names: Sequence[str] = (),
    multi_label: bool = False,
    dtype: str = "float32",
    index: str = EXACT,
    nprobe: int | None = None,
    rerank: int | None = None,
    probe: Any = None,
) -> Snapshot:
    """Make a snapshot without rows, from arguments of ``KNNDatastore``."""
    options = IndexOptions(index, nprobe, rerank)
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")
    names = tuple(label_names)
    if isinstance(label_names, str) or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"label_names must be different strings, got {label_names!r}.")
    if index != EXACT:
        fewest_rows(index, dimension)  # raises now if FAISS refuses the index, not only when there are enough rows
    probe = None if probe is None else as_queries(probe, "probe", dimension).copy()
    labels = np.zeros((0, len(names)), dtype=bool) if multi_label else np.zeros(0, dtype=np.int64)
    keys = np.zeros((0, dimension), dtype=dtype)
    return Snapshot(keys, labels, make_rows(0, []), label_names=names, options=options, probe=probe)


def add_rows(
    snapshot: Snapshot,
    keys: Any,
    labels: Iterable[Any],
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    ids: Iterable[str | None] | None = None,
    passages: Passages | None = None,
    origins: Iterable[Origin | None] | None = None,
) -> Snapshot:
    """Add examples, as ``KNNDatastore.add`` does."""
    keys = as_matrix(keys, "keys", snapshot.keys.shape[1])
    encoded, names = encode_labels(labels, snapshot.label_names, snapshot.multi_label)
    if len(encoded) != len(keys):
        raise ValueError(f"There are {len(keys)} keys, but {len(encoded)} labels: pass one for each key.")
    others = () if snapshot.documents is None else (snapshot.documents.rows,)
    grown = _append(snapshot, keys, encoded, texts, text_pairs, ids, passages, origins, others=others)
    return replace(grown, label_names=names)


def add_document_rows(
    snapshot: Snapshot,
    keys: Any,
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    ids: Iterable[str | None] | None = None,
    passages: Passages | None = None,
    origins: Iterable[Origin | None] | None = None,
) -> Snapshot:
    """Add documents without labels. Their ids must differ from those of the examples."""
    keys = as_matrix(keys, "keys", snapshot.keys.shape[1])
    no_labels = np.zeros((len(keys), 0), dtype=bool)
    before = snapshot.documents or no_documents(snapshot)
    grown = _append(
        before,
        keys,
        no_labels,
        texts,
        text_pairs,
        ids,
        passages,
        origins,
        others=(snapshot.rows,),
        prefix=DOCUMENT_PREFIX,
    )
    return replace(snapshot, documents=grown)


def no_documents(snapshot: Snapshot) -> Snapshot:
    """Make an empty snapshot of documents, with the dimension, dtype and index options of the examples."""
    empty = empty_snapshot(snapshot.keys.shape[1], (), multi_label=True, dtype=snapshot.keys.dtype.name)
    return replace(empty, options=snapshot.options)


def _append(
    snapshot: Snapshot,
    new_keys: np.ndarray,
    new_labels: np.ndarray,
    texts: Iterable[str | None] | None,
    text_pairs: Iterable[str | None] | None,
    ids: Iterable[str | None] | None,
    passages: Passages | None,
    origins: Iterable[Origin | None] | None,
    *,
    others: Sequence[pa.Table],
    prefix: str = "",
) -> Snapshot:
    """Append rows outside the index, with encoded labels.

    ``others``: tables with other rows, which must have other ids. ``prefix``: of automatic ids, for those of None.
    """
    count = len(new_keys)
    given_ids = [None] * count if ids is None else list(ids)
    new_ids, next_id = counted_ids(given_ids, snapshot.next_id, snapshot.rows, *others, prefix=prefix)
    new_table = make_rows(count, new_ids, texts, text_pairs, origins)
    table = append_rows(snapshot.rows, new_table, *others)
    new_passages = None if passages is None else check_passages(passages, new_keys, new_table)
    if new_passages is not None and isinstance(snapshot.keys, MappedKeys):
        raise ValueError(
            "Rows on the disk have one embedding each, but the new ones have several passages: use another "
            "long_documents, or a datastore in memory."
        )
    keys = with_rows(snapshot.keys, new_keys)
    labels = with_rows(snapshot.labels, new_labels)
    check_finite(keys[len(snapshot.keys) :], "keys")
    joined = None
    if snapshot.passages is not None or new_passages is not None:
        before = snapshot.passages or whole_rows(snapshot.keys, snapshot.rows)
        added = new_passages or whole_rows(new_keys, new_table)
        joined = Passages(
            embeddings=with_rows(before.embeddings, added.embeddings),
            counts=with_rows(before.counts, added.counts),
            spans=with_rows(before.spans, added.spans),
        )
        check_finite(joined.embeddings[len(before.embeddings) :], "embeddings of passages")
    return replace(snapshot, keys=keys, labels=labels, rows=table, next_id=next_id, passages=joined)


def remove_rows(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """Remove rows; the others keep their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(ids, str):
        raise ValueError(f"remove takes a list of ids, got one string: pass [{ids!r}].")
    ids = list(ids)
    existing = ids_among(ids, snapshot.rows)
    for row_id in ids:
        if row_id not in existing:
            raise ValueError(NO_ROW.format(row_id))
    kept = ~pc.is_in(snapshot.rows["id"], value_set=pa.array(ids, pa.string())).to_numpy()
    keys = snapshot.keys.keep(kept) if isinstance(snapshot.keys, MappedKeys) else snapshot.keys[kept]
    labels = snapshot.labels[kept]
    passages = take_passages(snapshot.passages, np.flatnonzero(kept))
    freeze(keys, labels, *(passages or ()))
    passages = passages and several_passages(passages)
    changed = replace(snapshot, keys=keys, labels=labels, rows=without(snapshot.rows, kept), passages=passages)
    if snapshot.index is None:
        return changed
    rows_now = np.where(kept, np.cumsum(kept) - 1, -1)
    index_rows = np.where(snapshot.index_rows < 0, -1, rows_now[snapshot.index_rows])
    return replace(changed, index_rows=index_rows, indexed=int(index_rows.max(initial=-1)) + 1)


def remove_documents(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """Remove documents."""
    return replace(snapshot, documents=remove_rows(snapshot.documents or no_documents(snapshot), ids))


def remove_either(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """Remove examples and documents."""
    ids = list(ids)
    documents = set() if snapshot.documents is None else ids_among(ids, snapshot.documents.rows)
    if documents:
        snapshot = remove_documents(snapshot, documents)
    examples = [row_id for row_id in ids if row_id not in documents]
    return remove_rows(snapshot, examples) if examples else snapshot


def relabel_rows(snapshot: Snapshot, ids: Sequence[str], labels: np.ndarray) -> Snapshot:
    """Replace the labels of some rows, int64 ``(n,)`` or bool ``(n, C)``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for row_id in ids:
        if not isinstance(row_id, str):
            raise ValueError(NO_ROW.format(row_id))
    places = pc.index_in(pa.array(ids, pa.string()), value_set=snapshot.rows["id"].combine_chunks())
    if places.null_count:
        raise ValueError(NO_ROW.format(ids[places.is_null().index(True).as_py()]))
    changed = snapshot.labels.copy()
    changed[places.to_numpy()] = labels
    freeze(changed)
    return replace(snapshot, labels=changed)
