"""Shards: a folder with a Parquet file for each task that embedded a part of a corpus.

Each has the columns ``id``, ``text`` (null if not kept), ``label`` (or null) and ``embedding``, a list of D numbers.
The settings that all shards share are JSON in the metadata of each file. A shard is there completely or not at all,
and ``datasets.load_dataset("parquet", data_dir=folder)`` reads it, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..arrays.keys import as_queries
from ..content_hash import sha256_of_parts
from .atomic_replacement import flush
from .inside_folder import temporary_file
from .manifest import DatastoreError, naming_file_in_errors, require

SETTINGS = b"docsplit_hf shard"  # the key in the metadata
VERSION = 2
DTYPES = ("float16", "float32")  # of the embeddings
# Texts are packed; embeddings hardly get smaller.
COMPRESSION = {"id": "zstd", "text": "zstd", "label": "zstd", "embedding.list.element": "none"}
REMEDY = "Delete it, and run the task again."


@dataclass(frozen=True)
class Shards:
    """The files of all tasks, with what they share."""

    files: dict[Path, int]  # with their numbers of rows, in the order of the tasks
    dimension: int
    dtype: str
    probe: np.ndarray | None  # float32 (P, D)
    sha256: str  # of the names, sizes and times of the files


def shard_file(folder: Path, task: int) -> Path:
    """The file of the shard of a task; it exists only if the shard is complete."""
    return folder / f"{task:05d}.parquet"


def columns_of(dtype: str) -> dict[str, pa.DataType]:
    """The columns of a shard."""
    embedding = pa.list_(pa.from_numpy_dtype(dtype))
    return {"id": pa.string(), "text": pa.string(), "label": pa.string(), "embedding": embedding}


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a folder with a shard of other settings; the probe may differ in its last bits."""
    for path in sorted(folder.glob("*.parquet"))[:1]:
        if difference := _difference(_read_settings(path), {"version": VERSION, **settings}):
            raise ValueError(
                f"{folder} was begun with other settings: {difference}. Use the same settings, or a new folder."
            )


@contextlib.contextmanager
def writing_shard(folder: Path, task: int, settings: Mapping[str, Any]) -> Iterator[pq.ParquetWriter]:
    """Write the shard of a task within the context: completely at its end, or not at all after an error.

    Files of the same shard that a killed process has left are deleted.
    """
    path = shard_file(folder, task)
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f".{path.stem}-*"):
        left.unlink(missing_ok=True)
    schema = pa.schema(columns_of(settings["dtype"]))
    with temporary_file(folder / f".{path.stem}-{uuid.uuid4().hex}") as temporary:
        with pq.ParquetWriter(
            temporary, schema, compression=COMPRESSION, use_dictionary=["label"], store_schema=False,
            write_page_checksum=True,
        ) as writer:  # fmt: skip
            writer.add_key_value_metadata({SETTINGS: json.dumps({"version": VERSION, **settings})})
            yield writer
        flush(temporary)
        os.replace(temporary, path)


def shard_table(ids: list[str], texts: list[str | None], labels: list[str | None], embeddings: np.ndarray) -> pa.Table:
    """The rows of a shard, with embeddings ``(n, D)``."""
    starts = pa.array(np.arange(len(embeddings) + 1, dtype=np.int32) * embeddings.shape[1])
    lists = pa.ListArray.from_arrays(starts, pa.array(embeddings.ravel()))
    schema = pa.schema(columns_of(embeddings.dtype.name))
    return pa.table([ids, texts, labels, lists], schema=schema)


def read_shards(folder: str | Path) -> Shards:
    """Read and check the settings of a folder of shards; rows are not read."""
    folder = Path(folder)
    there = sorted(folder.glob("*.parquet"))
    if not there:
        raise FileNotFoundError(f"There is no shard in {folder}: name a folder that EmbedDocuments has written.")
    settings = _read_settings(there[0])
    tasks = settings["tasks"]
    if len(there) < tasks:
        missing = next(path for path in map(partial(shard_file, folder), count()) if path not in there)
        unfinished = f"{tasks - len(there)} of {tasks} shards are not finished, the first is {missing.stem}"
        raise DatastoreError(f"{folder}: {unfinished}: run the tasks again, finished ones are skipped.")
    states = []
    files = {}
    for path in there:
        if difference := _difference(settings, _read_settings(path)):
            raise DatastoreError(f"{path} is not of the same corpus as {there[0].name}: {difference}. {REMEDY}")
        files[path] = pq.read_metadata(path).num_rows
        status = path.stat()
        states.append(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}".encode())
    dimension = settings["dimension"]
    with naming_file_in_errors(there[0], REMEDY):
        probe = settings.get("probe")
        probe = None if probe is None else as_queries(probe, "the probe", dimension)
    return Shards(
        files=files,
        dimension=dimension,
        dtype=settings["dtype"],
        probe=probe,
        sha256=sha256_of_parts(states),
    )


def _read_settings(path: Path) -> dict[str, Any]:
    """Read and check the settings in a shard."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
        settings = json.loads(metadata.get(SETTINGS, b"null"))
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise DatastoreError(f"{path} is damaged: {error}. {REMEDY}") from error
    if not isinstance(settings, dict) or settings.get("version") != VERSION:
        raise DatastoreError(
            f"{path} is no shard of this version of docsplit_hf: embed the corpus into a new folder, by EmbedDocuments."
        )
    for name in ("tasks", "dimension"):
        is_count = type(settings.get(name)) is int and settings[name] >= 1
        require(is_count, path, f"{name} is {settings.get(name)!r}", REMEDY)
    require(settings.get("dtype") in DTYPES, path, f"dtype is {settings.get('dtype')!r}", REMEDY)
    return settings


def _difference(existing: Mapping[str, Any], new: Mapping[str, Any], of: str = "") -> str:
    """Describe the settings that differ, except the probe, whose last bits may; empty if none does."""
    described = []
    for name in sorted((existing.keys() | new.keys()) - {"probe"}):
        before = existing.get(name)
        now = new.get(name)
        if isinstance(before, dict) and isinstance(now, dict) and before != now:
            described.append(_difference(before, now, f"{name} "))
        elif before != now:
            described.append(f"{of}{name} is {before!r} there and {now!r} now")
    return ", ".join(described)
