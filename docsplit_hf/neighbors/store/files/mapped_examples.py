"""The examples of a saved datastore, whose keys and texts stay on the disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....models.checkpoints.atomic_replacement import sha256_of
from ..datastore_error import REMEDY, DatastoreError
from ..keys.key_matrix import check_finite
from ..keys.mapped_keys import KeyFile, MappedKeys
from ..row_table import fault_of_ids
from .manifest import MANIFEST
from .parquet_files import read_batches
from .row_cache import ROWS_PER_CHUNK, mapped_rows

if TYPE_CHECKING:
    import pyarrow as pa

MAPPED = ("keys", "rows")  # the roles of the files


def map_examples(
    manifest: dict[str, Any], keys_path: Path, rows_path: Path
) -> tuple[MappedKeys, np.ndarray | None, pa.Table]:
    """Keys, probe and rows with their labels; checked in full when they are opened for the first time."""
    file, expected = KeyFile(keys_path), (manifest["dtype"], (manifest["rows"], manifest["dimension"]))
    if (file.array.dtype.name, file.array.shape) != expected:
        raise DatastoreError(
            f"{keys_path} holds {file.array.dtype} {file.array.shape}, {MANIFEST} says {expected}. {REMEDY}"
        )
    probe = None
    if "probe" in file.names:
        probe = KeyFile(keys_path, "probe").array.astype(np.float32)
        if probe.shape[1] != manifest["dimension"]:
            raise DatastoreError(f"{keys_path}: the probe is {probe.shape}, not {manifest['dimension']} wide. {REMEDY}")
    checksums = [manifest["files"][role]["sha256"] for role in MAPPED]
    rows_key = hashlib.sha256("".join(checksums).encode()).hexdigest()
    table = mapped_rows(rows_key, lambda: _read(manifest, file, rows_path))
    return MappedKeys([file], checksums[0]), probe, table


def check_sha256(path: Path, entry: dict[str, Any]) -> None:
    """Refuse a file that is not what the manifest says."""
    if sha256_of(path) != entry["sha256"]:
        raise DatastoreError(f"{path} is damaged: it does not match its checksum. {REMEDY}")


def label_type(manifest: dict[str, Any]) -> pa.DataType:
    """How labels stand in the file of rows."""
    import pyarrow as pa

    return pa.list_(pa.int64()) if manifest["multi_label"] else pa.int64()


def _read(manifest: dict[str, Any], file: KeyFile, path: Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa

    for role, checked in zip(MAPPED, (file.path, path), strict=True):
        check_sha256(checked, manifest["files"][role])
    try:
        check_finite(file.array, "keys")
    except ValueError as error:
        raise DatastoreError(f"{file.path}: {error} {REMEDY}") from error
    file.release()
    texts = dict.fromkeys(("id", "text"), pa.string())
    columns = {**texts, "text_pair": pa.string(), "label": label_type(manifest)}
    return pa.schema(columns), _batches(path, manifest["rows"], columns)


def _batches(path: Path, rows: int, columns: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    ids = []
    optional = {"text_pair": columns["text_pair"]}
    expected = {name: kind for name, kind in columns.items() if name not in optional}
    for batch in read_batches(path, expected, optional, rows, ROWS_PER_CHUNK):
        ids.append(batch["id"])
        given = {name: batch[name] for name in batch.schema.names}
        given.setdefault("text_pair", pa.nulls(len(batch), pa.string()))
        yield pa.record_batch([given[name] for name in columns], schema=pa.schema(columns))
    if (fault := fault_of_ids(pa.chunked_array(ids, pa.string()))) is not None:
        raise DatastoreError(f"{path}: {fault}. {REMEDY}")
