"""New snapshots: embedded, with more rows or fewer, with other labels, with documents, of two merged ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.inference.long_documents import SEVERAL_VECTORS, Passages
from ...models.portable.modeling_knn_classifier import MULTI_LABEL
from ...text.labels import is_multi_label, label_array, label_names_of, texts_of
from .index import EXACT, IndexOptions, fewest_rows
from .keys import GrowingArrays, as_matrix, as_queries, check_finite, freeze
from .mapped_keys import MappedKeys
from .probe import check_same_encoder
from .row_table import (
    append_rows,
    check_passages,
    counted_ids,
    encode_labels,
    ids_among,
    is_counted,
    make_rows,
    rename_labels,
    several_passages,
    take_passages,
    whole_rows,
    without,
)
from .snapshot import Snapshot
from .snapshot_index import update_index

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

    from ...models.inference.text_embedder import TextEmbedder
    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig

logger = logging.getLogger(__name__)

PREFIX = "d"  # of the automatic ids of documents
NO_ROW = "There is no row with the id {!r}: ids are strings, as add and search give them."


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
    """A snapshot without rows; the arguments are those of ``KNNDatastore``."""
    options = IndexOptions(index, nprobe, rerank)
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")
    names = tuple(label_names)
    if isinstance(label_names, str) or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ValueError(f"label_names must be different strings, got {label_names!r}.")
    if index != EXACT:
        fewest_rows(index, dimension)  # FAISS's own refusal comes now, not when there are enough rows
    probe = None if probe is None else as_queries(probe, "probe", dimension).copy()
    labels = np.zeros((0, len(names)), dtype=bool) if multi_label else np.zeros(0, dtype=np.int64)
    return Snapshot(np.zeros((0, dimension), dtype=dtype), labels, make_rows(0, []), names, 0, options, probe)


def add_rows(
    snapshot: Snapshot,
    keys: Any,
    labels: Iterable[Any],
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    ids: Iterable[str | None] | None = None,
    passages: Passages | None = None,
    arrays: GrowingArrays | None = None,
) -> Snapshot:
    """A snapshot with more examples, given as to ``KNNDatastore``; all snapshots of one grow in the same ``arrays``."""
    keys = as_matrix(keys, "keys", snapshot.keys.shape[1])
    encoded, names = encode_labels(labels, snapshot.label_names, snapshot.multi_label)
    if len(encoded) != len(keys):
        raise ValueError(f"There are {len(keys)} keys, but {len(encoded)} labels: pass one for each key.")
    others = () if snapshot.documents is None else (snapshot.documents.rows,)
    columns = texts, text_pairs, ids
    grown = _append(snapshot, keys, encoded, columns, passages, others, "", arrays or GrowingArrays())
    return replace(grown, label_names=names)


def add_documents(
    snapshot: Snapshot,
    keys: Any,
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    ids: Iterable[str | None] | None = None,
    passages: Passages | None = None,
    arrays: GrowingArrays | None = None,
) -> Snapshot:
    """A snapshot with more documents without labels. No id may be that of an example."""
    keys = as_matrix(keys, "keys", snapshot.keys.shape[1])
    columns, none = (texts, text_pairs, ids), np.zeros((len(keys), 0), dtype=bool)
    before, arrays = snapshot.documents or no_documents(snapshot), arrays or GrowingArrays()
    return replace(snapshot, documents=_append(before, keys, none, columns, passages, (snapshot.rows,), PREFIX, arrays))


def no_documents(snapshot: Snapshot) -> Snapshot:
    """What the documents of a datastore begin with: no rows, no labels, and its width, dtype and kind of index."""
    keys, labels = snapshot.keys[:0].copy(), np.zeros((0, 0), dtype=bool)
    return Snapshot(keys, labels, make_rows(0, []), (), options=snapshot.options)


def _append(
    snapshot: Snapshot,
    keys: np.ndarray,
    labels: np.ndarray,
    columns: tuple[Any, Any, Any],
    passages: Passages | None,
    others: Sequence[pa.Table],
    prefix: str,
    arrays: GrowingArrays,
) -> Snapshot:
    """A snapshot with rows at the end, which its index does not know; ``others``: tables whose ids are taken."""
    texts, text_pairs, ids = columns
    ids = [None] * len(keys) if ids is None else list(ids)
    ids, next_id = counted_ids(ids, snapshot.next_id, snapshot.rows, *others, prefix=prefix)
    new = make_rows(len(keys), ids, texts, text_pairs)
    table = append_rows(snapshot.rows, new, *others)
    more = None if passages is None else check_passages(passages, keys, new)
    if more is not None and isinstance(snapshot.keys, MappedKeys):
        raise ValueError(
            "Rows on the disk have one vector each, and these have several passages: take another long_documents, or a "
            "datastore in memory."
        )
    grown = {name: arrays.append(prefix + name, old, added)
             for name, old, added in (("keys", snapshot.keys, keys), ("labels", snapshot.labels, labels))}  # fmt: skip
    check_finite(grown["keys"][len(snapshot.keys) :], "keys")
    if snapshot.passages is not None or more is not None:
        before = snapshot.passages or whole_rows(snapshot.keys, snapshot.rows)
        both = zip(Passages._fields, before, more or whole_rows(keys, new), strict=True)
        joined = Passages(*(arrays.append(f"{prefix}passage {name}", old, added) for name, old, added in both))
        check_finite(joined.embeddings[len(before.embeddings) :], "embeddings of passages")
        grown["passages"] = joined
    return replace(snapshot, rows=table, next_id=next_id, **grown)


def merge_snapshots(snapshot: Snapshot, other: Snapshot, arrays: GrowingArrays) -> Snapshot:
    """A snapshot with the rows and documents of another at the end. Ids that the other's counters gave are renewed."""
    if other.multi_label != snapshot.multi_label:
        raise ValueError("One of the two has several labels per row, the other has one: build both with multi_label.")
    keys = as_matrix(other.keys, "keys of the other datastore", snapshot.keys.shape[1])
    if snapshot.probe is None and len(snapshot.keys) == 0 and snapshot.documents is None:
        snapshot = replace(snapshot, probe=other.probe)
    else:
        check_same_encoder(snapshot.probe, other.probe)
    labels, names = rename_labels(other.labels, other.label_names, snapshot.label_names)
    own, others = (state.documents or no_documents(state) for state in (snapshot, other))
    merged = _append(snapshot, keys, labels, *_columns(other, ""), (own.rows, others.rows), "", arrays)
    merged = replace(merged, label_names=names)
    if other.documents is not None:
        none, columns = np.zeros((len(others.keys), 0), dtype=bool), _columns(others, PREFIX)
        documents = _append(own, np.asarray(others.keys), none, *columns, (merged.rows,), PREFIX, arrays)
        merged = replace(merged, documents=documents)
    if snapshot.fitted is not None or other.fitted is not None:
        logger.warning("What was fitted on the two datastores does not fit what they are merged to: fit it again.")
    return replace(merged, fitted=None)


def uncounted_ids(snapshot: Snapshot, prefix: str = "") -> list[str | None]:
    """The ids of rows; None for those that the counter gave, told by their form."""
    ids = snapshot.rows["id"].to_pylist()
    return [None if is_counted(row_id, snapshot.next_id, prefix) else row_id for row_id in ids]


def _columns(snapshot: Snapshot, prefix: str) -> tuple[tuple[Any, Any, Any], Passages | None]:
    texts, pairs = (snapshot.rows[name].to_pylist() for name in ("text", "text_pair"))
    return (texts, pairs, uncounted_ids(snapshot, prefix)), snapshot.passages


def remove_rows(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """A snapshot without some rows, in arrays of its own. The others move up, and keep their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(ids, str):
        raise ValueError(f"remove takes a list of ids, got one string: pass [{ids!r}].")
    ids = list(ids)
    found = ids_among(ids, snapshot.rows)
    for row_id in ids:
        if row_id not in found:
            raise ValueError(NO_ROW.format(row_id))
    kept = ~pc.is_in(snapshot.rows["id"], value_set=pa.array(ids, pa.string())).to_numpy()
    is_mapped = isinstance(snapshot.keys, MappedKeys)
    keys, labels = snapshot.keys.keep(kept) if is_mapped else snapshot.keys[kept], snapshot.labels[kept]
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
    """A snapshot without some documents."""
    return replace(snapshot, documents=remove_rows(snapshot.documents or no_documents(snapshot), ids))


def remove_either(snapshot: Snapshot, ids: Iterable[str]) -> Snapshot:
    """A snapshot without some rows, each an example or a document."""
    ids = list(ids)
    documents = set() if snapshot.documents is None else ids_among(ids, snapshot.documents.rows)
    if documents:
        snapshot = remove_documents(snapshot, documents)
    examples = [row_id for row_id in ids if row_id not in documents]
    return remove_rows(snapshot, examples) if examples else snapshot


def relabel_rows(snapshot: Snapshot, ids: Sequence[str], labels: np.ndarray) -> Snapshot:
    """A snapshot in which the rows of some ids have other labels, int64 ``(n,)`` or bool ``(n, C)``."""
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


def embed_examples(embedder: TextEmbedder, dataset: Dataset, store_texts: bool, **options: Any) -> Snapshot:
    """The state that ``KNNDatastore.build`` begins with; ``options`` go to the snapshot."""
    texts, pairs = texts_of(dataset)
    for i, text in enumerate(texts):
        if isinstance(text, str) and not text.strip():
            raise ValueError(f"Text {i} is empty: load_labeled_examples drops such examples.")
    config = embedder.model.config
    trained, multi_label = config.label_names, is_multi_label(dataset)
    check_problem_type(config, multi_label, "The examples")
    names = (*trained, *(name for name in label_names_of(dataset) if name not in trained))
    labels = label_array(dataset, names, multi_label)
    labels = [np.flatnonzero(row) for row in labels] if multi_label else labels
    probe = embedder.probe()
    empty = empty_snapshot(probe.shape[1], names, multi_label, probe=probe, **options)  # wrong options show at once
    keys, passages = _embed_by_all_processes(embedder, texts, pairs)
    ids = list(dataset["id"]) if "id" in dataset.column_names else None
    stored = (texts, pairs) if store_texts else (None, None)
    return update_index(add_rows(empty, keys, labels, *stored, ids, passages), rebuild=True)


def check_problem_type(config: KNNClassifierConfig, multi_label: bool, examples: str) -> None:
    """Refuse examples with several labels each for a classifier of one, and the reverse; without a head either fits."""
    if config.num_labels and multi_label != (config.problem_type == MULTI_LABEL):
        raise ValueError(
            f"{examples} have {'several labels' if multi_label else 'one label'} each, and the classifier's "
            f"problem_type is {config.problem_type!r}: several labels need {MULTI_LABEL!r}."
        )


def _embed_by_all_processes(
    embedder: TextEmbedder, texts: list[str], pairs: list[str] | None
) -> tuple[np.ndarray, Passages | None]:
    """Float32 ``(N, R)``, and passages. Under accelerate each process embeds its share, and all get the whole."""
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState()
    own = np.array_split(np.arange(len(texts)), state.num_processes)[state.process_index]
    embedder = embedder.with_options(show_progress=embedder.options.show_progress and state.is_main_process)
    own_texts, own_pairs = [texts[i] for i in own], None if pairs is None else [pairs[i] for i in own]
    predictions = embedder.embed(own_texts, own_pairs)
    keys, passages = predictions.retrieval_embeddings, predictions.passages
    if state.num_processes == 1:
        return keys, passages
    if embedder.model.config.long_documents in SEVERAL_VECTORS and passages is None:
        spans = np.array([[0, len(text)] for text in own_texts], dtype=np.int64).reshape(-1, 2)
        passages = Passages(keys, np.ones(len(keys), dtype=np.int64), spans)
    parts = gather_object([(keys, *(passages or ()))])
    keys, *cut = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return keys, Passages(*cut) if cut else None
