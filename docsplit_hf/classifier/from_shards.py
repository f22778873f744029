"""Open a folder of shards as a datastore; keys (embeddings) and texts stay on the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays.index import EXACT, IndexOptions, fewest_rows
from ..arrays.keys import check_finite
from ..arrays.mapped_keys import KeyFile, MappedKeys, tensor_header
from ..arrays.row_table import TEXT_COLUMNS
from ..arrays.snapshot import Snapshot
from ..storage.inside_folder import temporary_file
from ..storage.manifest import DatastoreError, naming_file_in_errors
from ..storage.shards import REMEDY, Shards, columns_of, read_shards
from ..storage.snapshot_index import update_index
from ..storage.tables import cached_rows, mapped_rows, read_batches

LABEL_NAMES_KEY = b"label_names"  # in the metadata of the cached table
REMEDY_OF_IDS = "Give each document its own id, and embed the corpus again."


def open_shards(folder: str | Path, options: IndexOptions) -> Snapshot:
    """Make a snapshot of all documents; at first, all shards are read, checked, and copied to the cache."""
    shards = read_shards(folder)
    if options.factory != EXACT:
        fewest_rows(options.factory, shards.dimension)  # raises before all is read if FAISS refuses the index
    keys_file = cached_rows(shards.sha256).with_suffix(".safetensors")
    table = mapped_rows(
        shards.sha256, Path(folder), lambda: _read(shards, keys_file), beside=keys_file, remedy=REMEDY_OF_IDS
    )
    try:
        keys = MappedKeys(KeyFile(keys_file), shards.sha256)
    except ValueError as error:
        raise ValueError(f"{keys_file}, in the cache of this machine, is damaged ({error}): delete it.") from error
    is_labeled = len(table) > 0 and table["label"].null_count == 0
    snapshot = Snapshot(
        keys=keys,
        labels=table["label"].to_numpy() if is_labeled else np.zeros((len(keys), 0), dtype=bool),
        rows=table.select(TEXT_COLUMNS),
        label_names=tuple(json.loads(table.schema.metadata[LABEL_NAMES_KEY])),
        options=options,
        probe=shards.probe,
    )
    return update_index(snapshot, rebuild=True)


def _read(shards: Shards, keys_file: Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of the cached table, and its rows; the keys are written meanwhile."""
    found: set[str | None] = set()
    for path, count in shards.files.items():
        for batch in read_batches(path, columns_of(shards.dtype), count, only="label", remedy=REMEDY):
            found.update(batch["label"].unique().to_pylist())
    names = sorted(found - {None})
    columns = {**dict.fromkeys(TEXT_COLUMNS, pa.string()), "label": pa.int64()}
    schema = pa.schema(columns, metadata={LABEL_NAMES_KEY: json.dumps(names).encode()})
    return schema, _batches(shards, keys_file, schema, pa.array(names, pa.string()))


def _batches(shards: Shards, keys_file: Path, schema: pa.Schema, names: pa.Array) -> Iterator[pa.RecordBatch]:
    rows = sum(shards.files.values())
    labeled = 0
    with temporary_file(keys_file.with_suffix(".keys.tmp")) as temporary, open(temporary, "wb") as file:
        file.write(tensor_header({"keys": (np.dtype(shards.dtype), (rows, shards.dimension))}))
        for path, count in shards.files.items():
            for batch in read_batches(path, columns_of(shards.dtype), count, remedy=REMEDY):
                file.write(_keys_of(path, batch["embedding"], shards.dimension))
                label = pc.index_in(batch["label"], value_set=names, skip_nulls=True).cast(pa.int64())
                labeled += len(label) - label.null_count
                none = pa.nulls(len(batch), pa.string())
                yield pa.record_batch([batch["id"], batch["text"], none, none, none, label], schema=schema)
        if labeled not in (0, rows):
            folder = next(iter(shards.files)).parent
            raise DatastoreError(
                f"{folder}: {labeled} of {rows} documents have a label: give all of them one, or none."
            )
        file.flush()
        temporary.replace(keys_file)


def _keys_of(path: Path, embeddings: pa.ListArray, dimension: int) -> np.ndarray:
    """Check and return embeddings, ``(n, D)``."""
    values = embeddings.flatten()
    lengths = embeddings.value_lengths().to_numpy(zero_copy_only=False)
    if values.null_count or not (lengths == dimension).all():
        raise DatastoreError(f"{path}: an embedding has not {dimension} numbers. {REMEDY}")
    keys = values.to_numpy().reshape(-1, dimension)
    with naming_file_in_errors(path, REMEDY):
        check_finite(keys, "embeddings")
    return np.ascontiguousarray(keys)
