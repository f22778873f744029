"""The files of a datastore: keys, rows and a manifest that knows their checksums; data only, and nothing half-written.

A folder holds::

    manifest.json                     what there is, with checksums: see ``make_manifest``
    keys-<sha256>.safetensors         ``keys`` and, if there is one, ``probe``
    rows-<sha256>.parquet             ``id``, ``label``, ``text`` and, if there are any, ``text_pair``
    passage_keys-<sha256>.safetensors ``keys``, ``spans`` and ``counts`` of passages, if a row has several
    document_keys-<sha256>.safetensors, document_rows-<sha256>.parquet, document_passage_keys-<sha256>.safetensors
                                      the same of unlabeled documents, if there are any, without labels and probe
    fitted-<sha256>.safetensors, vocabulary-<sha256>.parquet
                                      the arrays of a fitted state, if there is one, and ``term``

The data files are named after their content, by the first 16 digits of their SHA-256, and never change. Saving puts new
ones beside the old, then replaces the manifest, then deletes what it no longer names. A reader finds the old datastore
or the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....models.checkpoints.atomic_replacement import finish_replacement, replaced_at_once, sha256_of
from ..datastore_error import REMEDY, DatastoreError
from ..documents import no_documents
from ..fitted_state import FittedState
from ..keys.key_matrix import check_finite
from ..keys.mapped_keys import write_tensors
from ..keys.passage_table import PassageTable, check_spans, find_fault
from ..row_table import TEXTS, fault_of_ids, ids_among
from ..search.index import EXACT, IndexOptions
from ..search.index_cache import load_index, store_index
from ..snapshot import Snapshot
from ..snapshot_index import update_index, use_index
from .classifier_files import classifier_checksums
from .hub_folder import FOLDER, local_folder
from .manifest import (
    MANIFEST,
    data_files,
    file_name,
    make_manifest,
    read_manifest,
    render_manifest,
)
from .mapped_examples import MAPPED, check_sha256, label_type, map_examples
from .parquet_files import read_table, write_table

if TYPE_CHECKING:
    import pyarrow as pa


def save_snapshot(folder: str | Path, snapshot: Snapshot) -> None:
    """Save beside the classifier in a folder, if there is one; the index goes to the cache of this machine."""
    manifest = write_datastore(Path(folder) / FOLDER, snapshot, classifier_checksums(Path(folder)))
    for kind, rows in (("", snapshot), ("document_", snapshot.documents)):
        if rows is not None and rows.index is not None and rows.outside_index == 0:
            store_index(rows.index, _searched_sha256(manifest, kind), rows.options.factory)


def load_snapshot(
    name_or_folder: str | Path, revision: str | None, token: str | bool | None, memory_map: bool = False
) -> Snapshot:
    """Load from a folder or a repository on the Hub, with an index from the cache of this machine, or built anew."""
    folder = local_folder(name_or_folder, f"{FOLDER}/*", revision, token)
    if Path(name_or_folder).is_dir():
        finish_replacement(folder)
    snapshot, manifest = read_datastore(folder / FOLDER, memory_map)
    if snapshot.options.factory == EXACT:
        return snapshot
    documents = snapshot.documents and _with_index(snapshot.documents, _searched_sha256(manifest, "document_"))
    examples = _with_index(replace(snapshot, documents=None), _searched_sha256(manifest))
    return replace(examples, documents=documents)


def _with_index(rows: Snapshot, sha256: str) -> Snapshot:
    """Examples or documents with an index of their keys: the one that is kept, or a new one, which is kept."""
    index = load_index(sha256, rows.options.factory, *rows.searched.shape)
    if index is not None:
        return use_index(rows, index)
    rows = update_index(rows, rebuild=True)
    if rows.index is not None:
        store_index(rows.index, sha256, rows.options.factory)
    return rows


def _searched_sha256(manifest: dict[str, Any], kind: str = "") -> str:
    """The checksum of the keys that an index is built from: of the examples, or of the kind ``document_``."""
    files = manifest["files"]
    return files.get(f"{kind}passage_keys", files[f"{kind}keys"])["sha256"]


def write_datastore(folder: Path, snapshot: Snapshot, classifier: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Write a datastore in place of what the folder held before, and return its manifest. Other files there stay."""
    with replaced_at_once(folder, MANIFEST, data_files) as staging:
        files = {role: _name(staging / role) for role in _write_data(staging, snapshot)}
        manifest = make_manifest(snapshot, classifier or {}, files)
        (staging / MANIFEST).write_bytes(render_manifest(manifest))
    return manifest


def read_datastore(folder: Path, memory_map: bool = False) -> tuple[Snapshot, dict[str, Any]]:
    """Read a datastore, without an index, and its manifest; all of it is checked before any is used.

    ``memory_map``: keys and rows of examples stay on the disk, and are checked when they are opened for the first time.
    """
    finish_replacement(folder)
    previous = None
    while True:
        manifest = read_manifest(folder)
        try:
            return _read_data(folder, manifest, memory_map), manifest
        except FileNotFoundError as error:
            if manifest == previous:  # else somebody saves at the same time: the new manifest names other files
                raise DatastoreError(f"A file of the datastore is missing: {error}. {REMEDY}") from error
            previous = manifest


def _write_data(folder: Path, snapshot: Snapshot) -> list[str]:
    """Write the data files, each named by its role, and return the roles."""
    import pyarrow as pa

    tensors = {"keys": {"keys": snapshot.keys} | ({} if snapshot.probe is None else {"probe": snapshot.probe})}
    tables = {"rows": _texts(snapshot).add_column(1, "label", _label_column(snapshot))}
    if snapshot.passages is not None:
        tensors["passage_keys"] = _passage_tensors(snapshot.passages)
    if snapshot.documents is not None:
        tensors["document_keys"] = {"keys": snapshot.documents.keys}
        if snapshot.documents.passages is not None:
            tensors["document_passage_keys"] = _passage_tensors(snapshot.documents.passages)
        tables["document_rows"] = _texts(snapshot.documents)
    if snapshot.fitted is not None:
        tensors["fitted"] = snapshot.fitted.arrays
        tables["vocabulary"] = pa.table({"term": pa.array(snapshot.fitted.vocabulary, pa.string())})
    for role, arrays in tensors.items():
        write_tensors(arrays, folder / role)
    for role, table in tables.items():
        write_table(table, folder / role)
    return [*tensors, *tables]


def _passage_tensors(passages: PassageTable) -> dict[str, np.ndarray]:
    return {field.name: getattr(passages, field.name) for field in fields(passages)}


def _texts(snapshot: Snapshot) -> pa.Table:
    rows = snapshot.rows
    return rows.drop_columns("text_pair") if rows["text_pair"].null_count == len(rows) else rows


def _label_column(snapshot: Snapshot) -> pa.Array:
    import pyarrow as pa

    if not snapshot.multi_label:
        return pa.array(snapshot.labels, pa.int64())
    lengths, labels = snapshot.labels.sum(1), np.nonzero(snapshot.labels)[1]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(labels, pa.int64()))


def _name(path: Path) -> dict[str, Any]:
    """Name a file after its content; its entry in the manifest."""
    entry = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    named = path.rename(path.with_name(file_name(path.name, entry["sha256"])))
    return {"name": named.name, **entry}


def _read_data(folder: Path, manifest: dict[str, Any], memory_map: bool) -> Snapshot:
    paths = {role: folder / entry["name"] for role, entry in manifest["files"].items()}
    for role, entry in manifest["files"].items():
        size = paths[role].stat().st_size
        if size != entry["bytes"]:
            raise DatastoreError(f"{paths[role]} is damaged: it has {size} bytes instead of {entry['bytes']}. {REMEDY}")
        if not (memory_map and role in MAPPED):
            check_sha256(paths[role], entry)
    if memory_map:
        keys, probe, table = map_examples(manifest, paths["keys"], paths["rows"])
    else:
        keys, probe = _read_keys(paths["keys"], manifest, manifest["rows"])
        table = _read_texts(paths["rows"], {"label": label_type(manifest)}, manifest["rows"])
    rows = table.select(TEXTS)
    labels = _read_labels(paths["rows"], table["label"].combine_chunks(), manifest)
    names, options = tuple(manifest["label_names"]), IndexOptions(**manifest["index"])
    passages = _read_passages(paths.get("passage_keys"), manifest, rows, manifest["passages"])
    examples = Snapshot(keys, labels, rows, names, manifest["next_id"], options, probe, passages=passages)
    documents = manifest["documents"] and _read_documents(paths, examples, manifest)
    fitted = None if manifest["fitted"] is None else _read_fitted(paths, manifest["fitted"])
    return replace(examples, documents=documents, fitted=fitted)


def _read_documents(paths: dict[str, Path], examples: Snapshot, manifest: dict[str, Any]) -> Snapshot:
    path, count = paths["document_rows"], manifest["documents"]["rows"]
    keys, probe = _read_keys(paths["document_keys"], manifest, count)
    if probe is not None:
        raise DatastoreError(f"{paths['document_keys']} holds a probe, which belongs to the examples. {REMEDY}")
    rows = _read_texts(path, {}, count)
    if taken := sorted(ids_among(rows["id"], examples.rows)):
        raise DatastoreError(f"{path}: the id {taken[0]!r} is that of an example too. {REMEDY}")
    labels, next_id = np.zeros((count, 0), dtype=bool), manifest["documents"]["next_id"]
    passages = _read_passages(paths.get("document_passage_keys"), manifest, rows, manifest["document_passages"])
    changes = {"keys": keys, "labels": labels, "rows": rows.select(TEXTS), "next_id": next_id, "passages": passages}
    return replace(no_documents(examples), **changes)


def _read_fitted(paths: dict[str, Path], settings: dict[str, Any]) -> FittedState:
    import pyarrow as pa

    terms = read_table(paths["vocabulary"], {"term": pa.string()}, {})["term"]
    if terms.null_count:
        raise DatastoreError(f"{paths['vocabulary']}: a term is missing. {REMEDY}")
    try:
        return FittedState(settings, _read_tensors(paths["fitted"]), tuple(terms.to_pylist()))
    except ValueError as error:
        raise DatastoreError(f"{paths['fitted']}: {error} {REMEDY}") from error


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, TypeError, ValueError) as error:  # of NumPy, for dtypes and shapes that it does not have
        raise DatastoreError(f"{path} is no safetensors file: {error}. {REMEDY}") from error


def _read_keys(path: Path, manifest: dict[str, Any], rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    tensors = _read_tensors(path)
    keys, probe = tensors.pop("keys", None), tensors.pop("probe", None)
    dimension, dtype = manifest["dimension"], manifest["dtype"]
    if keys is None or keys.shape != (rows, dimension) or keys.dtype != dtype or tensors:
        found = "no keys" if keys is None else f"keys {keys.dtype} {keys.shape}"
        raise DatastoreError(
            f"{path} holds {found} and {sorted(tensors) or 'nothing'} besides, {MANIFEST} says {dtype} "
            f"{(rows, dimension)}. {REMEDY}"
        )
    if probe is not None and (probe.dtype != np.float32 or probe.shape[1:] != (dimension,)):
        raise DatastoreError(f"{path}: the probe is {probe.dtype} {probe.shape}, not {dimension} wide. {REMEDY}")
    try:
        check_finite(keys, "keys")
        if probe is not None:
            check_finite(probe, "probe")
    except ValueError as error:
        raise DatastoreError(f"{path}: {error} {REMEDY}") from error
    return keys, probe


def _read_passages(
    path: Path | None, manifest: dict[str, Any], rows: pa.Table, count: int | None
) -> PassageTable | None:
    if path is None:
        return None
    tensors = _read_tensors(path)
    found = {name: (tensor.dtype.name, tensor.shape) for name, tensor in tensors.items()}
    keys = manifest["dtype"], (count, manifest["dimension"])
    expected = {"keys": keys, "spans": ("int64", (count, 2)), "counts": ("int64", (len(rows),))}
    if found != expected:
        raise DatastoreError(f"{path} holds {found}, from {MANIFEST} {expected} is expected. {REMEDY}")
    passages = PassageTable(**tensors)
    if (fault := find_fault(passages)) is not None:
        raise DatastoreError(f"{path}: {fault} {REMEDY}")
    try:
        check_finite(passages.keys, "keys")
        check_spans(passages, rows)
    except ValueError as error:
        raise DatastoreError(f"{path}: {error} {REMEDY}") from error
    return passages


def _read_texts(path: Path, columns: dict[str, pa.DataType], rows: int) -> pa.Table:
    """Ids and texts, as ``make_rows`` gives them, and other columns."""
    import pyarrow as pa

    expected = {"id": pa.string(), **columns, "text": pa.string()}
    table = read_table(path, expected, {"text_pair": pa.string()}, rows)
    if (fault := fault_of_ids(table["id"])) is not None:
        raise DatastoreError(f"{path}: {fault}. {REMEDY}")
    if "text_pair" not in table.column_names:
        table = table.append_column("text_pair", pa.nulls(len(table), pa.string()))
    return table


def _read_labels(path: Path, column: pa.Array, manifest: dict[str, Any]) -> np.ndarray:
    count, multi_label = len(manifest["label_names"]), manifest["multi_label"]
    values = column.flatten() if multi_label else column
    if column.null_count or values.null_count:
        raise DatastoreError(f"{path}: a row has no label. {REMEDY}")
    labels = values.to_numpy(zero_copy_only=False)
    outside = labels[(labels < 0) | (labels >= count)]
    if outside.size:
        raise DatastoreError(f"{path}: label {outside[0]}, but there are {count} label names. {REMEDY}")
    if not multi_label:
        return labels
    dense = np.zeros((len(column), count), dtype=bool)
    dense[np.repeat(np.arange(len(column)), column.value_lengths().to_numpy(zero_copy_only=False)), labels] = True
    return dense
