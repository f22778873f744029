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

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....content_hash import sha256_of_file, sha256_of_parts
from ....models.checkpoints.atomic_replacement import held_still, replaced_at_once
from ....models.checkpoints.one_state import read_at_once
from ....models.inference.long_documents import Passages
from ..changes import no_documents
from ..index import IndexOptions
from ..keys import check_finite
from ..mapped_keys import KeyFile, MappedKeys, write_tensors
from ..row_table import TEXTS, check_spans, fault_of_ids, ids_among
from ..snapshot import FittedState, Snapshot
from ..snapshot_index import store_index, update_index
from .classifier_folder import FOLDER, classifier_checksums, local_folder
from .manifest import (
    MANIFEST,
    REMEDY,
    DatastoreError,
    blamed_on,
    data_files,
    file_name,
    make_manifest,
    read_manifest,
    render_manifest,
)
from .tables import mapped_rows, read_batches, read_table, write_table

if TYPE_CHECKING:
    import pyarrow as pa

MAPPED = ("keys", "rows")  # the roles of the files that may stay on the disk
PASSAGES = ("keys", "counts", "spans")  # the fields of Passages, as they are called in files
KINDS = ("", "document_")  # what the roles of examples and of documents begin with


def save_snapshot(folder: str | Path, snapshot: Snapshot) -> None:
    """Save beside the classifier in a folder, if there is one; the index goes to the cache of this machine."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with held_still(folder):  # else a save could replace the classifier that the datastore names
        manifest = write_datastore(folder / FOLDER, snapshot, classifier_checksums(folder))
    for kind, rows in zip(KINDS, (snapshot, snapshot.documents), strict=True):
        if rows is not None and rows.index is not None and rows.outside_index == 0:
            store_index(rows.index, _searched_sha256(manifest, kind), rows.options.factory)


def load_snapshot(
    name_or_folder: str | Path, revision: str | None, token: str | bool | None, memory_map: bool = False
) -> Snapshot:
    """Load from a folder or a repository on the Hub, with an index from the cache of this machine, or built anew."""
    folder = local_folder(name_or_folder, f"{FOLDER}/*", revision, token)
    (snapshot, manifest), _ = read_at_once(folder, lambda: read_datastore(folder / FOLDER, memory_map))
    if (documents := snapshot.documents) is not None:
        documents = update_index(documents, True, _searched_sha256(manifest, "document_"))
    examples = update_index(replace(snapshot, documents=None), True, _searched_sha256(manifest, ""))
    return replace(examples, documents=documents)


def _searched_sha256(manifest: dict[str, Any], kind: str) -> str:
    """The checksum of the keys that an index of examples or documents is built from."""
    files = manifest["files"]
    return files.get(f"{kind}passage_keys", files[f"{kind}keys"])["sha256"]


def write_datastore(folder: Path, snapshot: Snapshot, classifier: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Write a datastore in place of what the folder held before, and return its manifest. Other files there stay."""
    import pyarrow as pa

    tensors: dict[str, dict[str, Any]] = {}
    tables: dict[str, pa.Table] = {}
    for kind, rows in zip(KINDS, (snapshot, snapshot.documents), strict=True):
        if rows is None:
            continue
        tensors[f"{kind}keys"] = {"keys": rows.keys} | ({} if rows.probe is None else {"probe": rows.probe})
        if rows.passages is not None:
            tensors[f"{kind}passage_keys"] = dict(zip(PASSAGES, rows.passages, strict=True))
        has_pairs = rows.rows["text_pair"].null_count < len(rows.rows)
        tables[f"{kind}rows"] = rows.rows if has_pairs else rows.rows.drop_columns("text_pair")
    tables["rows"] = tables["rows"].add_column(1, "label", _label_column(snapshot))
    if snapshot.fitted is not None:
        tensors["fitted"] = snapshot.fitted.arrays
        tables["vocabulary"] = pa.table({"term": pa.array(snapshot.fitted.vocabulary, pa.string())})
    with replaced_at_once(folder, MANIFEST, data_files, may_be_link=False) as staging:
        for role, arrays in tensors.items():
            write_tensors(arrays, staging / role)
        for role, table in tables.items():
            write_table(table, staging / role)
        files = {role: _name(staging / role) for role in (*tensors, *tables)}
        manifest = make_manifest(snapshot, classifier or {}, files)
        (staging / MANIFEST).write_bytes(render_manifest(manifest))
    return manifest


def _label_column(snapshot: Snapshot) -> pa.Array:
    import pyarrow as pa

    if not snapshot.multi_label:
        return pa.array(snapshot.labels, pa.int64())
    lengths, labels = snapshot.labels.sum(1), np.nonzero(snapshot.labels)[1]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(labels, pa.int64()))


def _name(path: Path) -> dict[str, Any]:
    """Name a file after its content; its entry in the manifest."""
    entry = {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)}
    named = path.rename(path.with_name(file_name(path.name, entry["sha256"])))
    return {"name": named.name, **entry}


def read_datastore(folder: Path, memory_map: bool = False) -> tuple[Snapshot, dict[str, Any]]:
    """Read a datastore, checked, without an index, and its manifest; ``memory_map``: its examples stay on the disk."""
    if not folder.is_dir():
        read_manifest(folder)  # which says what to do
    read, _ = read_at_once(folder, lambda: _read_folder(folder, memory_map))
    return read


def _read_folder(folder: Path, memory_map: bool) -> tuple[Snapshot, dict[str, Any]]:
    manifest = read_manifest(folder)
    try:
        return _read_snapshot(folder, manifest, memory_map), manifest
    except FileNotFoundError as error:
        raise DatastoreError(f"A file of the datastore is missing: {error}. {REMEDY}") from error


def _read_snapshot(folder: Path, manifest: dict[str, Any], memory_map: bool) -> Snapshot:
    import pyarrow as pa

    paths = {role: folder / entry["name"] for role, entry in manifest["files"].items()}
    for role, entry in manifest["files"].items():
        size = paths[role].stat().st_size
        if size != entry["bytes"]:
            raise DatastoreError(f"{paths[role]} is damaged: it has {size} bytes instead of {entry['bytes']}. {REMEDY}")
        if not (memory_map and role in MAPPED):
            _check_sha256(paths[role], entry)
    label = pa.list_(pa.int64()) if manifest["multi_label"] else pa.int64()
    columns = dict.fromkeys(TEXTS, pa.string()) | {"label": label}
    if memory_map:
        keys, probe, table = _map_examples(paths, manifest, columns)
    else:
        keys, probe = _read_keys(paths["keys"], manifest, manifest["rows"])
        table = _read_rows(paths["rows"], columns, manifest["rows"])
    labels = _read_labels(paths["rows"], table["label"].combine_chunks(), manifest)
    names, options, rows = tuple(manifest["label_names"]), IndexOptions(**manifest["index"]), table.select(TEXTS)
    passages = _read_passages(paths.get("passage_keys"), manifest, rows, manifest["passages"])
    examples = Snapshot(keys, labels, rows, names, manifest["next_id"], options, probe, passages=passages)
    documents = None if manifest["documents"] is None else _read_documents(paths, examples, manifest)
    fitted = None if manifest["fitted"] is None else _read_fitted(paths, manifest["fitted"])
    return replace(examples, documents=documents, fitted=fitted)


def _check_sha256(path: Path, entry: dict[str, Any]) -> None:
    if sha256_of_file(path) != entry["sha256"]:
        raise DatastoreError(f"{path} is damaged: it does not match its checksum. {REMEDY}")


def _read_rows(path: Path, columns: dict[str, pa.DataType], count: int) -> pa.Table:
    table = read_table(path, columns, count)
    if (fault := fault_of_ids(table["id"])) is not None:
        raise DatastoreError(f"{path}: {fault}. {REMEDY}")
    return table


def _map_examples(
    paths: dict[str, Path], manifest: dict[str, Any], columns: dict[str, pa.DataType]
) -> tuple[MappedKeys, np.ndarray | None, pa.Table]:
    """Keys, probe and rows with their labels; checked in full when they are opened for the first time."""
    import pyarrow as pa

    path, shape = paths["keys"], (manifest["rows"], manifest["dimension"])
    with blamed_on(path):
        file = KeyFile(path)
        probe = KeyFile(path, "probe").array.astype(np.float32) if "probe" in file.names else None
    _check_keys(path, manifest, shape, file.array, probe, set())

    def batches() -> Iterator[pa.RecordBatch]:
        ids = []
        for batch in read_batches(paths["rows"], columns, manifest["rows"]):
            ids.append(batch["id"])
            yield batch
        if (fault := fault_of_ids(pa.chunked_array(ids, pa.string()))) is not None:
            raise DatastoreError(f"{paths['rows']}: {fault}. {REMEDY}")

    def read() -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        for role in MAPPED:
            _check_sha256(paths[role], manifest["files"][role])
        with blamed_on(path):
            check_finite(file.array, "keys")
        file.release()
        return pa.schema(columns), batches()

    checksums = [manifest["files"][role]["sha256"] for role in MAPPED]
    table = mapped_rows(sha256_of_parts([checksum.encode() for checksum in checksums]), read)
    return MappedKeys([file], checksums[0]), probe, table


def _read_documents(paths: dict[str, Path], examples: Snapshot, manifest: dict[str, Any]) -> Snapshot:
    import pyarrow as pa

    path, count = paths["document_rows"], manifest["documents"]["rows"]
    keys, probe = _read_keys(paths["document_keys"], manifest, count)
    if probe is not None:
        raise DatastoreError(f"{paths['document_keys']} holds a probe, which belongs to the examples. {REMEDY}")
    rows = _read_rows(path, dict.fromkeys(TEXTS, pa.string()), count)
    if taken := sorted(ids_among(rows["id"], examples.rows)):
        raise DatastoreError(f"{path}: the id {taken[0]!r} is that of an example too. {REMEDY}")
    passages = _read_passages(paths.get("document_passage_keys"), manifest, rows, manifest["document_passages"])
    changes = {"labels": np.zeros((count, 0), dtype=bool), "next_id": manifest["documents"]["next_id"]}
    return replace(no_documents(examples), keys=keys, rows=rows, passages=passages, **changes)


def _read_fitted(paths: dict[str, Path], settings: dict[str, Any]) -> FittedState:
    import pyarrow as pa

    terms = read_table(paths["vocabulary"], {"term": pa.string()})["term"]
    if terms.null_count:
        raise DatastoreError(f"{paths['vocabulary']}: a term is missing. {REMEDY}")
    with blamed_on(paths["fitted"]):
        return FittedState(settings, _read_tensors(paths["fitted"]), tuple(terms.to_pylist()))


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
    _check_keys(path, manifest, (rows, manifest["dimension"]), keys, probe, set(tensors))
    with blamed_on(path):
        check_finite(keys, "keys")
        if probe is not None:
            check_finite(probe, "probe")
    return keys, probe


def _check_keys(
    path: Path,
    manifest: dict[str, Any],
    shape: tuple[int, int],
    keys: np.ndarray | None,
    probe: np.ndarray | None,
    others: set[str],
) -> None:
    if keys is None or keys.shape != shape or keys.dtype != manifest["dtype"] or others:
        found = "no keys" if keys is None else f"keys {keys.dtype} {keys.shape}"
        raise DatastoreError(
            f"{path} holds {found} and {sorted(others) or 'nothing'} besides, {MANIFEST} says {manifest['dtype']} "
            f"{shape}. {REMEDY}"
        )
    if probe is not None and (probe.dtype != np.float32 or probe.shape[1:] != shape[1:]):
        raise DatastoreError(f"{path}: the probe is {probe.dtype} {probe.shape}, not {shape[1]} wide. {REMEDY}")


def _read_passages(path: Path | None, manifest: dict[str, Any], rows: pa.Table, count: int | None) -> Passages | None:
    if path is None:
        return None
    tensors = _read_tensors(path)
    found = {name: (tensor.dtype.name, tensor.shape) for name, tensor in tensors.items()}
    keys = manifest["dtype"], (count, manifest["dimension"])
    expected = {"keys": keys, "spans": ("int64", (count, 2)), "counts": ("int64", (len(rows),))}
    if found != expected:
        raise DatastoreError(f"{path} holds {found}, from {MANIFEST} {expected} is expected. {REMEDY}")
    passages = Passages(*(tensors[name] for name in PASSAGES))
    with blamed_on(path):
        check_finite(passages.embeddings, "keys")
        check_spans(passages, rows)
    return passages


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
