"""Open a folder of shards as a datastore; keys (embeddings) and texts stay on the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..arrays.index import EXACT, IndexOptions, fewest_rows
from ..arrays.keys import check_finite
from ..arrays.mapped_keys import KeyFile, MappedKeys
from ..arrays.row_table import TEXT_COLUMNS, describe_invalid_ids, describe_invalid_origins, with_origin_columns
from ..arrays.snapshot import Snapshot
from ..content_hash import sha256_of_file
from ..storage.shards import Shard, Shards, ShardsError, read_shards
from ..storage.snapshot_index import update_index
from ..storage.tables import mapped_rows, read_batches

if TYPE_CHECKING:
    import pyarrow as pa

LABEL_NAMES_KEY = b"label_names"  # in the metadata of the cached table


def open_shards(folder: str | Path, options: IndexOptions, verify: bool) -> Snapshot:
    """Make a snapshot of all documents; ``verify``: read and check all files again."""
    shards = read_shards(folder)
    keys = MappedKeys([_map(shard, shards) for shard in shards.shards], shards.sha256)
    if options.factory != EXACT:
        fewest_rows(options.factory, shards.dimension)  # raises before all is read if FAISS refuses the index
    table = mapped_rows(shards.sha256, lambda: _read(shards, keys), verify)
    names = tuple(json.loads(table.schema.metadata[LABEL_NAMES_KEY]))
    is_labeled = len(table) > 0 and table["label"].null_count == 0
    labels = table["label"].to_numpy() if is_labeled else np.zeros((len(keys), 0), dtype=bool)
    snapshot = Snapshot(
        keys=keys,
        labels=labels,
        rows=with_origin_columns(table).select(TEXT_COLUMNS),
        label_names=names if is_labeled else (),
        options=options,
        probe=shards.probe,
    )
    return update_index(snapshot, rebuild=True)


def _map(shard: Shard, shards: Shards) -> KeyFile:
    expected = (shards.dtype, (shard.passages, shards.dimension))
    try:
        file = KeyFile(shard.keys)
    except ValueError as error:
        raise ShardsError(f"{shard.keys}: {error}.") from error
    if (file.array.dtype.name, file.array.shape) != expected:
        raise ShardsError(f"{shard.keys} holds keys {file.array.dtype} {file.array.shape}, expected {expected}.")
    if shard.rows != shard.passages:
        raise ShardsError(
            f"{shard.keys} has {shard.passages} passages of {shard.rows} documents: a datastore of shards has one "
            "vector for each document; embed them with another long_documents."
        )
    return file


def _read(shards: Shards, keys: MappedKeys) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa

    for shard, file in zip(shards.shards, keys.files, strict=True):
        for path, sha256 in shard.sha256.items():
            if sha256_of_file(path) != sha256:
                raise ShardsError(
                    f"{path} is damaged: it does not match its checksum. Delete its .json, then run the task again."
                )
        try:
            check_finite(file.array, "keys")
        except ValueError as error:
            raise ShardsError(f"{shard.keys}: {error}") from error
    names = shards.label_names
    if names is None:  # in alphabetical order
        found: set[str | None] = set()
        for shard in shards.shards:
            for batch in read_batches(shard.table, {"label": pa.string()}, shard.rows, others=True):
                found.update(batch["label"].unique().to_pylist())
        names = sorted(found - {None})
    columns = {**dict.fromkeys(TEXT_COLUMNS, pa.string()), "label": pa.int64()}
    schema = pa.schema(columns, metadata={LABEL_NAMES_KEY: json.dumps(list(names)).encode()})
    return schema, _batches(shards, schema, pa.array(names, pa.string()))


def _batches(shards: Shards, schema: pa.Schema, names: pa.Array) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = []
    labeled = 0
    expected = {**dict.fromkeys((*TEXT_COLUMNS, "label"), pa.string()), "passages": pa.int32()}
    for shard in shards.shards:
        for batch in read_batches(shard.table, expected, shard.rows, others=True):
            label = pc.index_in(batch["label"], value_set=names, skip_nulls=True).cast(pa.int64())
            unknown = pc.and_(pc.is_null(label), pc.is_valid(batch["label"]))
            if pc.any(unknown).as_py():
                name = batch["label"].filter(unknown)[0].as_py()
                raise ShardsError(f"{shard.table}: the label {name!r} is not one of the {len(names)} in corpus.json.")
            if not pc.all(pc.equal(pc.fill_null(batch["passages"], 0), 1)).as_py():
                raise ShardsError(f"{shard.table}: each of the {shard.rows} documents must have one passage.")
            labeled += len(label) - label.null_count
            fault = describe_invalid_origins(pa.Table.from_batches([batch]))
            if fault is not None:
                raise ShardsError(f"{shard.table}: {fault}.")
            ids.append(batch["id"])
            yield pa.record_batch([*(batch[name] for name in TEXT_COLUMNS), label], schema=schema)
    rows = sum(shard.rows for shard in shards.shards)
    if labeled not in (0, rows):
        raise ShardsError(f"{labeled} of {rows} documents have a label: give all of them one, or none.")
    fault = describe_invalid_ids(pa.chunked_array(ids, pa.string()))
    if fault is not None:
        raise ShardsError(f"{shards.shards[0].table.parent}: {fault}: give each document its own id.")
