"""The files of a datastore: keys, rows and a manifest that knows their checksums; data only, and nothing half-written.

A folder holds::

    manifest.json                     what there is, with checksums: see ``make_manifest``
    keys-<sha256>.safetensors         ``keys`` and, if there is one, ``probe``
    rows-<sha256>.parquet             ``id``, ``label``, ``text`` and, if there are any, ``text_pair``

The data files are named after their content, by the first 16 digits of their SHA-256, and never change. Saving puts new
ones beside the old, then replaces the manifest, then deletes what it no longer names. A reader finds the old datastore
or the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.checkpoints.atomic_replacement import finish_replacement, replaced_at_once
from ...models.checkpoints.checksum import sha256_of
from .classifier_files import classifier_checksums
from .hub_folder import FOLDER, local_folder
from .index import EXACT, IndexOptions
from .index_cache import load_index, store_index
from .key_matrix import check_finite
from .manifest import MANIFEST, REMEDY, DatastoreError, data_files, make_manifest, read_manifest, render_manifest
from .row_table import repeated_id
from .snapshot import Snapshot, update_index, use_index

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TEXTS = ("id", "text", "text_pair")


def save_snapshot(folder: str | Path, snapshot: Snapshot) -> None:
    """Save beside the classifier in a folder, if there is one; the index goes to the cache of this machine."""
    manifest = write_datastore(Path(folder) / FOLDER, snapshot, classifier_checksums(Path(folder)))
    if snapshot.index is not None and snapshot.outside_index == 0:
        store_index(snapshot.index, manifest["files"]["keys"]["sha256"], snapshot.options.factory)


def load_snapshot(name_or_folder: str | Path, revision: str | None, token: str | bool | None) -> Snapshot:
    """Load from a folder or a repository on the Hub, with an index from the cache of this machine, or built anew."""
    folder = local_folder(name_or_folder, f"{FOLDER}/*", revision, token)
    if Path(name_or_folder).is_dir():
        finish_replacement(folder)
    snapshot, manifest = read_datastore(folder / FOLDER)
    factory, sha256 = snapshot.options.factory, manifest["files"]["keys"]["sha256"]
    if factory == EXACT:
        return snapshot
    index = load_index(sha256, factory, *snapshot.keys.shape)
    if index is not None:
        return use_index(snapshot, index)
    snapshot = update_index(snapshot, rebuild=True)
    if snapshot.index is not None:
        store_index(snapshot.index, sha256, factory)
    return snapshot


def write_datastore(folder: Path, snapshot: Snapshot, classifier: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Write a datastore in place of what the folder held before, and return its manifest. Other files there stay."""
    import pyarrow.parquet as pq
    from safetensors.numpy import save_file

    tensors = {"keys": snapshot.keys} | ({} if snapshot.probe is None else {"probe": snapshot.probe})
    with replaced_at_once(folder, MANIFEST, data_files) as staging:
        save_file(tensors, staging / "keys")
        table = _to_table(snapshot)
        # Without Arrow's own schema in it: plain Parquet types only.
        pq.write_table(table, staging / "rows", compression="zstd", store_schema=False)
        if table.nbytes > _most_unpacked((staging / "rows").stat().st_size):  # a text many times: nobody would read it
            pq.write_table(table, staging / "rows", compression="none", use_dictionary=False, store_schema=False)
        files = {"keys": _name(staging / "keys", ".safetensors"), "rows": _name(staging / "rows", ".parquet")}
        manifest = make_manifest(snapshot, classifier or {}, files)
        (staging / MANIFEST).write_bytes(render_manifest(manifest))
    return manifest


def read_datastore(folder: Path) -> tuple[Snapshot, dict[str, Any]]:
    """Read a datastore, without an index, and its manifest; all of it is checked before any is used."""
    finish_replacement(folder)
    previous = None
    while True:
        manifest = read_manifest(folder)
        try:
            return _read_data(folder, manifest), manifest
        except FileNotFoundError as error:
            if manifest == previous:  # else somebody saves at the same time: the new manifest names other files
                raise DatastoreError(f"A file of the datastore is missing: {error}. {REMEDY}") from error
            previous = manifest


def _to_table(snapshot: Snapshot) -> pa.Table:
    import pyarrow as pa

    if snapshot.multi_label:
        lengths, labels = snapshot.labels.sum(1), np.nonzero(snapshot.labels)[1]
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        column = pa.ListArray.from_arrays(pa.array(ends), pa.array(labels, pa.int64()))
    else:
        column = pa.array(snapshot.labels, pa.int64())
    table = snapshot.rows.add_column(1, "label", column)
    return table.drop_columns("text_pair") if table["text_pair"].null_count == len(table) else table


def _name(path: Path, suffix: str) -> dict[str, Any]:
    """Name a file after its content; its entry in the manifest."""
    entry = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    named = path.rename(path.with_name(f"{path.name}-{entry['sha256'][:16]}{suffix}"))
    return {"name": named.name, **entry}


def _read_data(folder: Path, manifest: dict[str, Any]) -> Snapshot:
    for entry in manifest["files"].values():
        path = folder / entry["name"]
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise DatastoreError(f"{path} is damaged: it has {size} bytes instead of {entry['bytes']}. {REMEDY}")
        if sha256_of(path) != entry["sha256"]:
            raise DatastoreError(f"{path} is damaged: it does not match its checksum. {REMEDY}")
    keys, probe = _read_keys(folder / manifest["files"]["keys"]["name"], manifest)
    rows, labels = _read_rows(folder / manifest["files"]["rows"]["name"], manifest)
    names = tuple(manifest["label_names"])
    return Snapshot(keys, labels, rows, names, manifest["next_id"], IndexOptions(**manifest["index"]), probe)


def _read_keys(path: Path, manifest: dict[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, TypeError) as error:  # the latter for a dtype that NumPy does not have
        raise DatastoreError(f"{path} is no safetensors file: {error}. {REMEDY}") from error
    keys, probe = tensors.pop("keys", None), tensors.pop("probe", None)
    rows, dimension, dtype = manifest["rows"], manifest["dimension"], manifest["dtype"]
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


def _read_rows(path: Path, manifest: dict[str, Any]) -> tuple[pa.Table, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    label = pa.list_(pa.int64()) if manifest["multi_label"] else pa.int64()
    expected = {"id": pa.string(), "label": label, "text": pa.string()}
    try:
        metadata = pq.read_metadata(path)
        if metadata.num_rows != manifest["rows"]:
            raise DatastoreError(f"{path} has {metadata.num_rows} rows, {MANIFEST} says {manifest['rows']}. {REMEDY}")
        schema = metadata.schema.to_arrow_schema().remove_metadata()
        if "text_pair" in schema.names:
            expected["text_pair"] = pa.string()
        if dict(zip(schema.names, schema.types, strict=True)) != expected or len(schema) > len(expected):
            raise DatastoreError(f"{path} has other columns than a datastore: {schema.to_string()}. {REMEDY}")
        _check_unpacked(path, _encoded_bytes(metadata), manifest)
        texts = [name for name in TEXTS if name in expected]  # a text that is often there is read once
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
            table = file.read()
        _check_unpacked(path, _text_bytes(table), manifest)
        table = table.cast(schema)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DatastoreError(f"{path} is no Parquet file: {error}. {REMEDY}") from error
    if table["id"].null_count:
        raise DatastoreError(f"{path}: a row has no id. {REMEDY}")
    if (repeated := repeated_id(table)) is not None:
        raise DatastoreError(f"{path}: the id {repeated!r} is there twice. {REMEDY}")
    labels = _read_labels(path, table["label"].combine_chunks(), len(manifest["label_names"]), manifest["multi_label"])
    if "text_pair" not in expected:
        table = table.append_column("text_pair", pa.nulls(len(table), pa.string()))
    return table.select(TEXTS), labels


def _check_unpacked(path: Path, unpacked: int, manifest: dict[str, Any]) -> None:
    """A few kilobytes may unpack to gigabytes: loading a stranger's datastore must not use up the memory."""
    most = _most_unpacked(manifest["files"]["rows"]["bytes"])
    if unpacked > most:
        raise DatastoreError(
            f"{path} unpacks to {unpacked:,} bytes, and from its size at most {most:,} are expected: it may be made to "
            "fill the memory. Do not use it."
        )


def _most_unpacked(packed: int) -> int:
    return 2**26 + 1000 * packed


def _encoded_bytes(metadata: pq.FileMetaData) -> int:
    """What the pages take without compression. A value of a list may take less than a bit, and eight bytes later."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    lists = [column for column in columns if "." in column.path_in_schema]
    return sum(column.total_uncompressed_size for column in columns) + 8 * sum(column.num_values for column in lists)


def _text_bytes(table: pa.Table) -> int:
    """What the texts take when each row has its own copy."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [column for column in table.columns if isinstance(column.type, pa.DictionaryType)]
    lengths = [pc.take(pc.binary_length(chunk.dictionary), chunk.indices) for c in columns for chunk in c.chunks]
    return sum(pc.sum(chunk).as_py() or 0 for chunk in lengths)


def _read_labels(path: Path, column: pa.Array, count: int, multi_label: bool) -> np.ndarray:
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
