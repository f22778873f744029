"""The files of a datastore: keys, rows and a manifest that knows their checksums; data only, and nothing half-written.

A folder holds::

    manifest.json                     what there is: see ``read_manifest``
    keys-<sha256>.safetensors         ``keys`` and, if there is one, ``probe``
    rows-<sha256>.parquet             ``id``, ``label``, ``text`` and, if there are any, ``text_pair``

The data files are named after their content, by the first 16 digits of their SHA-256, and never change. Saving writes
new ones beside the old, then replaces the manifest, in one step of the file system, then deletes what it no longer
names. So a process that is killed leaves the old datastore or the new one. Renaming whole folders would not do: a
folder cannot replace one that is not empty, so there is a moment with neither.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .checksum import sha256_of
from .index import IndexOptions
from .keys import check_finite
from .manifest import (
    FILE_NAMES,
    FORMAT,
    MANIFEST,
    METRIC,
    REMEDY,
    VERSION,
    DatastoreError,
    read_manifest,
    render_manifest,
)
from .rows import repeated_id
from .snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

# The second kind is what safetensors leaves behind when it is killed while it writes.
_TEMPORARY = re.compile(r"(keys|rows|manifest)-[0-9a-f]{32}\.tmp|\.tmp[0-9A-Za-z]{6}")


def write_datastore(folder: str | Path, snapshot: Snapshot) -> dict[str, Any]:
    """Write a datastore in place of what the folder held before. Other files there are left alone.

    Args:
        folder: The folder, made if it is not there.
        snapshot: What to write.

    Returns:
        The manifest, as ``read_manifest`` reads it.

    Example:

        >>> import tempfile
        >>> from docsplit_hf.knn.rows import make_rows
        >>> keys, rows = np.zeros((1, 4), dtype=np.float32), make_rows(1, ["a"], ["A text."])
        >>> snapshot = Snapshot(keys, np.array([0]), rows, ("fruit",), 0, IndexOptions())
        >>> folder = tempfile.mkdtemp()
        >>> write_datastore(folder, snapshot)["rows"]
        1
        >>> read_datastore(folder)[0].rows.to_pylist()
        [{'id': 'a', 'text': 'A text.', 'text_pair': None}]
    """
    import pyarrow.parquet as pq
    from safetensors.numpy import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"keys": snapshot.keys} | ({} if snapshot.probe is None else {"probe": snapshot.probe})
    table = _to_table(snapshot)
    with _one_writer(folder):
        files = {
            "keys": _write_file(folder, "keys", ".safetensors", lambda path: save_file(tensors, path)),
            "rows": _write_file(
                folder,
                "rows",
                ".parquet",
                # Without Arrow's own schema in it: plain Parquet types only.
                lambda path: pq.write_table(table, path, compression="zstd", store_schema=False),
            ),
        }
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "rows": len(snapshot.keys),
            "dimension": snapshot.keys.shape[1],
            "dtype": snapshot.keys.dtype.name,
            "metric": METRIC,
            "multi_label": snapshot.multi_label,
            "label_names": list(snapshot.label_names),
            "next_id": snapshot.next_id,
            "index": asdict(snapshot.options),
            "files": files,
        }
        temporary = folder / f"manifest-{uuid.uuid4().hex}.tmp"
        temporary.write_bytes(render_manifest(manifest))
        _flush(temporary)
        _flush(folder)
        os.replace(temporary, folder / MANIFEST)  # the moment at which the new datastore takes the place of the old
        _flush(folder)
        _delete_leftovers(folder, {entry["name"] for entry in files.values()})
    return manifest


def read_datastore(folder: str | Path) -> tuple[Snapshot, dict[str, Any]]:
    """Read a datastore, and check all of it before any is used.

    Args:
        folder: Where ``write_datastore`` wrote it.

    Returns:
        The datastore, without an index, and its manifest.

    Raises:
        FileNotFoundError: If there is no datastore.
        DatastoreError: If anything does not match its checksum, or does not fit together.
    """
    previous = None
    while True:
        manifest = read_manifest(Path(folder))
        try:
            return _read_data(Path(folder), manifest), manifest
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


def _write_file(folder: Path, role: str, suffix: str, write: Callable[[Path], None]) -> dict[str, Any]:
    temporary = folder / f"{role}-{uuid.uuid4().hex}.tmp"
    try:
        write(temporary)
        _flush(temporary)
        entry = {"bytes": temporary.stat().st_size, "sha256": sha256_of(temporary)}
        name = f"{role}-{entry['sha256'][:16]}{suffix}"
        os.replace(temporary, folder / name)
    finally:
        temporary.unlink(missing_ok=True)
    return {"name": name, **entry}


def _flush(path: Path) -> None:
    """Have the disk hold it, so that a power cut does not leave a manifest without what it names."""
    if path.is_dir() and os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _one_writer(folder: Path) -> Iterator[None]:
    """Others that save to the folder wait: they would delete what is not in a manifest yet. A killed one is out."""
    try:
        import fcntl
    except ImportError:  # Windows: let only one process save to a folder at a time
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            logger.warning("%s cannot be locked (%s): let only one process save there at a time.", folder, error)
        yield
    finally:
        os.close(descriptor)


def _delete_leftovers(folder: Path, kept: set[str]) -> None:
    for path in folder.iterdir():
        ours = any(pattern.fullmatch(path.name) for pattern in (*FILE_NAMES.values(), _TEMPORARY))
        if ours and path.name not in kept:
            path.unlink(missing_ok=True)


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

    try:
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows != manifest["rows"]:
                raise DatastoreError(
                    f"{path} has {file.metadata.num_rows} rows, {MANIFEST} says {manifest['rows']}. {REMEDY}"
                )
            table = file.read().replace_schema_metadata(None)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DatastoreError(f"{path} is no Parquet file: {error}. {REMEDY}") from error
    types = {field.name: field.type for field in table.schema}
    several_of_a_name = len(types) < table.num_columns
    label = types.pop("label", None)
    if manifest["multi_label"]:
        label = label.value_type if label is not None and pa.types.is_list(label) else None
    strings = {"id": pa.string(), "text": pa.string(), "text_pair": pa.string()}
    expected = {name: strings[name] for name in strings if name in types or name != "text_pair"}
    if several_of_a_name or label != pa.int64() or types != expected:
        raise DatastoreError(f"{path} has other columns than a datastore: {table.schema.to_string()}. {REMEDY}")
    if table["id"].null_count:
        raise DatastoreError(f"{path}: a row has no id. {REMEDY}")
    if (repeated := repeated_id(table)) is not None:
        raise DatastoreError(f"{path}: the id {repeated!r} is there twice. {REMEDY}")
    labels = _read_labels(path, table["label"].combine_chunks(), len(manifest["label_names"]), manifest["multi_label"])
    if "text_pair" not in types:
        table = table.append_column("text_pair", pa.nulls(len(table), pa.string()))
    return table.select(["id", "text", "text_pair"]), labels


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
