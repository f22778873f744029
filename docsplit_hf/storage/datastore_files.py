"""Read and write the files of a datastore.

A folder holds::

    manifest.json                     description with checksums: see ``Manifest``
    keys-<sha256>.safetensors         ``keys``, and ``probe`` if there is one
    rows-<sha256>.parquet             ``id``, ``label``, ``text``, and ``text_pair`` if there are pairs; ``file`` and
                                      ``places`` (JSON) if a text comes from a file
    passage_keys-<sha256>.safetensors ``keys``, ``spans`` and ``counts`` of passages, if a row has several
    document_keys-<sha256>.safetensors
                                      ``keys`` of unlabeled documents, if there are any
    document_rows-<sha256>.parquet    ``id``, ``text``, ``text_pair``, ``file`` and ``places`` of documents
    document_passage_keys-<sha256>.safetensors
                                      ``keys``, ``spans`` and ``counts`` of passages of documents
    fitted-<sha256>.safetensors       arrays of the fitted state, if there is one
    vocabulary-<sha256>.parquet       ``term``: the vocabulary of the fitted state

Files hold data only, never code. Data files never change, and are named by the first 16 digits of their SHA-256. Saving
adds new files, then replaces the manifest, then deletes the old files, so that removed texts are gone: a reader finds
either the old datastore or the new one, or reads again (``read_one_save``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.fitted_state import FittedState
from ..arrays.index import IndexOptions
from ..arrays.keys import check_finite
from ..arrays.mapped_keys import KeyFile, MappedKeys, write_tensors
from ..arrays.passages import Passages, check_spans
from ..arrays.row_table import (
    ORIGIN_COLUMNS,
    TEXT_COLUMNS,
    TextTable,
    describe_invalid_ids,
    describe_invalid_origins,
    has_origins,
    ids_among,
    with_origin_columns,
)
from ..arrays.snapshot import Snapshot
from ..content_hash import sha256_of_file
from .atomic_replacement import delete_files, finish_save, flush_files, move_files, read_one_save, save_lock, staged
from .classifier_folder import FOLDER, classifier_checksums, forgetting_cached_rows, local_folder
from .earlier_names import with_present_names
from .inside_folder import InsideFolder
from .manifest import (
    MANIFEST,
    REMEDY,
    DatastoreError,
    FileEntry,
    Manifest,
    data_files,
    file_name,
    make_manifest,
    naming_file_in_errors,
    read_manifest,
    render_manifest,
)
from .snapshot_index import store_index, update_index
from .tables import MAPPED_ROLES, mapped_rows, read_batches, read_table, refuse, rows_sha256, write_table

if TYPE_CHECKING:
    import pyarrow as pa

ROLE_PREFIXES = ("", "document_")  # of examples and of documents


def save_snapshot(folder: str | Path, snapshot: Snapshot) -> None:
    """Save to a folder, beside the classifier if there is one; cache the index on this machine."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # No other save may replace the classifier meanwhile.
    with save_lock(folder), forgetting_cached_rows(folder / FOLDER):
        finish_save(folder)
        manifest = write_datastore(folder / FOLDER, snapshot, classifier_checksums(folder))
    for prefix, rows in zip(ROLE_PREFIXES, (snapshot, snapshot.documents), strict=True):
        if rows is not None and rows.index is not None and rows.outside_index == 0:
            store_index(rows.index, index_source_sha256(manifest, prefix), rows.options.factory)


def load_snapshot(
    name_or_folder: str | Path, revision: str | None, token: str | bool | None, memory_map: bool = False
) -> Snapshot:
    """Load from a folder or from the Hub; load the index from the cache of this machine, or build it."""
    folder = local_folder(name_or_folder, f"{FOLDER}/*", revision, token)
    (snapshot, manifest), _ = read_one_save(folder, lambda place: read_datastore(Path(place, FOLDER), memory_map))
    return with_indexes(snapshot, manifest)


def with_indexes(snapshot: Snapshot, manifest: Manifest) -> Snapshot:
    """Add the indexes of examples and documents, from the cache of this machine if they are there."""
    documents = snapshot.documents
    if documents is not None:
        documents = update_index(documents, True, index_source_sha256(manifest, "document_"))
    examples = update_index(replace(snapshot, documents=None), True, index_source_sha256(manifest, ""))
    return replace(examples, documents=documents)


def index_source_sha256(manifest: Manifest, prefix: str) -> str:
    """Return the checksum of the keys from which the index of examples or documents is built."""
    files = manifest["files"]
    return files.get(f"{prefix}passage_keys", files[f"{prefix}keys"])["sha256"]


def write_datastore(folder: Path, snapshot: Snapshot, classifier: Mapping[str, str] | None = None) -> Manifest:
    """Replace the datastore in a folder, and return its manifest; other files stay."""
    import pyarrow as pa

    tensors: dict[str, dict[str, np.ndarray | MappedKeys]] = {}
    tables: dict[str, pa.Table] = {}
    for prefix, rows in zip(ROLE_PREFIXES, (snapshot, snapshot.documents), strict=True):
        if rows is None:
            continue
        tensors[f"{prefix}keys"] = {"keys": rows.keys}
        if rows.probe is not None:
            tensors[f"{prefix}keys"]["probe"] = rows.probe
        if rows.passages is not None:
            tensors[f"{prefix}passage_keys"] = {
                "keys": rows.passages.embeddings,
                "counts": rows.passages.counts,
                "spans": rows.passages.spans,
            }
        table = rows.rows
        if table["text_pair"].null_count == len(table):
            table = table.drop_columns("text_pair")
        tables[f"{prefix}rows"] = table if has_origins(table) else table.drop_columns(list(ORIGIN_COLUMNS))
    tables["rows"] = tables["rows"].add_column(1, "label", _label_column(snapshot))
    if snapshot.fitted is not None:
        tensors["fitted"] = snapshot.fitted.arrays
        tables["vocabulary"] = pa.table({"term": pa.array(snapshot.fitted.vocabulary, pa.string())})
    folder.mkdir(parents=True, exist_ok=True)
    with save_lock(folder), InsideFolder.opened(folder, may_be_link=False) as inside:
        old_names = data_files(folder)
        with staged(inside) as staging:
            for role, arrays in tensors.items():
                write_tensors(arrays, staging.path / role)
            for role, table in tables.items():
                write_table(table, staging.path / role)
            files = {role: _rename_by_content(staging.path / role) for role in (*tensors, *tables)}
            manifest = make_manifest(snapshot, classifier or {}, files)
            (staging.path / MANIFEST).write_bytes(render_manifest(manifest))
            names = list(staging.files())
            flush_files(staging, names)
            move_files(staging, inside, names)  # the manifest last
        delete_files(inside, set(old_names) - set(names))
    return manifest


def _label_column(snapshot: Snapshot) -> pa.Array:
    import pyarrow as pa

    if not snapshot.multi_label:
        return pa.array(snapshot.labels, pa.int64())
    lengths = snapshot.labels.sum(1)
    labels = np.nonzero(snapshot.labels)[1]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(labels, pa.int64()))


def _rename_by_content(path: Path) -> FileEntry:
    """Rename a file by its content, and return its entry in the manifest."""
    sha256 = sha256_of_file(path)
    renamed = path.rename(path.with_name(file_name(path.name, sha256)))
    return {"name": renamed.name, "bytes": renamed.stat().st_size, "sha256": sha256}


def read_datastore(folder: Path, memory_map: bool = False) -> tuple[Snapshot, Manifest]:
    """Read and check a datastore, without an index, and its manifest; ``memory_map``: examples stay on the disk."""

    def read(_: str | Path) -> tuple[Snapshot, Manifest]:
        manifest = read_manifest(folder)
        try:
            return _read_snapshot(folder, manifest, memory_map), manifest
        except FileNotFoundError as error:
            raise DatastoreError(f"A file of the datastore is missing: {error}. {REMEDY}") from error

    return read_one_save(folder, read)[0]


def _read_snapshot(folder: Path, manifest: Manifest, memory_map: bool) -> Snapshot:
    import pyarrow as pa

    paths = {role: folder / entry["name"] for role, entry in manifest["files"].items()}
    for role, entry in manifest["files"].items():
        size = paths[role].stat().st_size
        if size != entry["bytes"]:
            raise DatastoreError(f"{paths[role]} is damaged: it has {size} bytes instead of {entry['bytes']}. {REMEDY}")
        if not (memory_map and role in MAPPED_ROLES):
            check_sha256(paths[role], entry)
    label = pa.list_(pa.int64()) if manifest["multi_label"] else pa.int64()
    columns = dict.fromkeys(TEXT_COLUMNS, pa.string()) | {"label": label}
    if memory_map:
        keys, probe, table = _map_examples(paths, manifest, columns)
    else:
        keys, probe = read_keys(paths["keys"], manifest, manifest["rows"])
        table = _read_rows(paths["rows"], columns, manifest["rows"])
    labels = _read_labels(paths["rows"], table["label"].combine_chunks(), manifest)
    rows = with_origin_columns(table).select(TEXT_COLUMNS)
    examples = examples_of(manifest, paths, keys, probe, labels, rows)
    documents = None if manifest["documents"] is None else _read_documents(paths, examples, manifest)
    if manifest["fitted"] is None:
        return replace(examples, documents=documents)
    terms = read_table(paths["vocabulary"], {"term": pa.string()})["term"]
    if terms.null_count:
        raise DatastoreError(f"{paths['vocabulary']}: a term is missing. {REMEDY}")
    fitted = fitted_state(paths["fitted"], manifest["fitted"], terms.to_pylist())
    return replace(examples, documents=documents, fitted=fitted)


def examples_of(
    manifest: Manifest,
    paths: dict[str, Path],
    keys: np.ndarray | MappedKeys,
    probe: np.ndarray | None,
    labels: np.ndarray,
    rows: pa.Table | TextTable,
) -> Snapshot:
    """The examples of a datastore, without documents and what was fitted."""
    return Snapshot(
        keys=keys,
        labels=labels,
        rows=rows,
        label_names=tuple(manifest["label_names"]),
        next_id=manifest["next_id"],
        options=IndexOptions(**manifest["index"]),
        probe=probe,
        passages=read_passages(paths.get("passage_keys"), manifest, rows, manifest["passages"]),
    )


def check_sha256(path: Path, entry: FileEntry) -> None:
    if sha256_of_file(path) != entry["sha256"]:
        raise DatastoreError(f"{path} is damaged: it does not match its checksum. {REMEDY}")


def _read_rows(path: Path, columns: dict[str, pa.DataType], count: int) -> pa.Table:
    table = read_table(path, columns, count)
    refuse(path, describe_invalid_ids(table["id"]) or describe_invalid_origins(table))
    return table


def _map_examples(
    paths: dict[str, Path], manifest: Manifest, columns: dict[str, pa.DataType]
) -> tuple[MappedKeys, np.ndarray | None, pa.Table]:
    """Map keys and rows, and read the probe. The files are checked when they are first opened on this machine."""
    import pyarrow as pa

    path = paths["keys"]
    shape = (manifest["rows"], manifest["dimension"])
    with naming_file_in_errors(path):
        file = KeyFile(path)
        probe = KeyFile(path, "probe").array.astype(np.float32) if "probe" in file.names else None
    _check_keys(path, manifest, shape, file.array, probe, set())

    def read() -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        for role in MAPPED_ROLES:
            check_sha256(paths[role], manifest["files"][role])
        with naming_file_in_errors(path):
            check_finite(file.array, "keys")
        return pa.schema(columns), read_batches(paths["rows"], columns, manifest["rows"])

    table = mapped_rows(rows_sha256(manifest), paths["rows"], read)
    return MappedKeys(file, manifest["files"]["keys"]["sha256"]), probe, table


def _read_documents(paths: dict[str, Path], examples: Snapshot, manifest: Manifest) -> Snapshot:
    import pyarrow as pa

    path = paths["document_rows"]
    keys = read_document_keys(paths, manifest)
    rows = _read_rows(path, dict.fromkeys(TEXT_COLUMNS, pa.string()), manifest["documents"]["rows"])
    shared = sorted(ids_among(rows["id"], examples.rows))
    if shared:
        raise DatastoreError(f"{path}: the id {shared[0]!r} is that of an example too. {REMEDY}")
    return documents_of(examples, manifest, paths, keys, rows)


def read_document_keys(paths: dict[str, Path], manifest: Manifest) -> np.ndarray:
    """The keys of the documents."""
    keys, probe = read_keys(paths["document_keys"], manifest, manifest["documents"]["rows"])
    if probe is not None:
        raise DatastoreError(f"{paths['document_keys']} holds a probe, which belongs to the examples. {REMEDY}")
    return keys


def documents_of(
    examples: Snapshot, manifest: Manifest, paths: dict[str, Path], keys: np.ndarray, rows: pa.Table | TextTable
) -> Snapshot:
    """The documents of a datastore, with these keys, ids and texts."""
    return replace(
        examples,
        keys=keys,
        labels=np.zeros((len(rows), 0), dtype=bool),
        rows=rows,
        label_names=(),
        next_id=manifest["documents"]["next_id"],
        probe=None,
        passages=read_passages(paths.get("document_passage_keys"), manifest, rows, manifest["document_passages"]),
    )


def fitted_state(path: Path, settings: dict[str, Any], terms: Sequence[str]) -> FittedState:
    """What was fitted: the settings in the manifest, the arrays in a file, and the vocabulary."""
    with naming_file_in_errors(path):
        settings, arrays = with_present_names(settings, read_tensors(path))
        return FittedState(settings, arrays, tuple(terms))


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, TypeError, ValueError) as error:  # TypeError and ValueError come from NumPy
        raise DatastoreError(f"{path} is not a safetensors file: {error}. {REMEDY}") from error


def read_keys(path: Path, manifest: Manifest, rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    tensors = read_tensors(path)
    keys = tensors.pop("keys", None)
    probe = tensors.pop("probe", None)
    _check_keys(path, manifest, (rows, manifest["dimension"]), keys, probe, set(tensors))
    with naming_file_in_errors(path):
        check_finite(keys, "keys")
        if probe is not None:
            check_finite(probe, "probe")
    return keys, probe


def _check_keys(
    path: Path,
    manifest: Manifest,
    shape: tuple[int, int],
    keys: np.ndarray | None,
    probe: np.ndarray | None,
    others: set[str],
) -> None:
    if keys is None or keys.shape != shape or keys.dtype != manifest["dtype"] or others:
        found = "no 'keys'" if keys is None else f"'keys' of {keys.dtype} {keys.shape}"
        if others:
            found += f" and {sorted(others)}"
        raise DatastoreError(
            f"{path}: expected only a tensor 'keys' of {manifest['dtype']} {shape}, as in {MANIFEST}, found {found}. "
            f"{REMEDY}"
        )
    if probe is not None and (probe.dtype != np.float32 or probe.shape[1:] != shape[1:]):
        raise DatastoreError(f"{path}: the probe is {probe.dtype} {probe.shape}, not {shape[1]} wide. {REMEDY}")


def read_passages(
    path: Path | None, manifest: Manifest, rows: pa.Table | TextTable, count: int | None
) -> Passages | None:
    if path is None:
        return None
    tensors = read_tensors(path)
    found = {name: (tensor.dtype.name, tensor.shape) for name, tensor in tensors.items()}
    expected = {
        "keys": (manifest["dtype"], (count, manifest["dimension"])),
        "spans": ("int64", (count, 2)),
        "counts": ("int64", (len(rows),)),
    }
    if found != expected:
        raise DatastoreError(f"{path} holds {found}, but {MANIFEST} needs {expected}. {REMEDY}")
    passages = Passages(embeddings=tensors["keys"], counts=tensors["counts"], spans=tensors["spans"])
    with naming_file_in_errors(path):
        check_finite(passages.embeddings, "keys")
        check_spans(passages, rows)
    return passages


def _read_labels(path: Path, column: pa.Array, manifest: Manifest) -> np.ndarray:
    count = len(manifest["label_names"])
    multi_label = manifest["multi_label"]
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
