"""Shards: a corpus's keys, ids, texts and labels in a folder, written by many tasks, each shard whole or not at all.

A folder holds::

    corpus.json        what all shards have in common: the encoder, the number of tasks, dimension and dtype of the keys
    00000.parquet      of each document ``id``, ``text`` (null if texts are not kept), ``label`` or null, ``passages``
    00000.safetensors  ``keys``, (N, D), in the order of the documents
    00000.json         how many there are, and the checksums of both files; written last: without it there is no shard
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .content_hash import sha256_of_file, sha256_of_parts
from .encoders.checkpoints.atomic_replacement import flush, open_to_readers

CORPUS = "corpus.json"
FORMAT = "docsplit_hf shards"
VERSION = 1
PROGRESS = "rows"  # in the folder of a shard that is being written: how many documents it has so far
_FIELDS = {"format": str, "version": int, "tasks": int, "dimension": int, "dtype": str, "encoder": dict}
_SHARD_FIELDS = {"rows": int, "passages": int, "sha256": dict}


class ShardsError(ValueError):
    """A folder of shards is damaged, incomplete or of another format."""


@dataclass(frozen=True)
class Shard:
    """One shard: its files, their checksums by file, and how many documents and passages it has."""

    table: Path
    keys: Path
    sha256: dict[Path, str]
    rows: int
    passages: int


@dataclass(frozen=True)
class Shards:
    """A folder of shards. ``sha256`` covers its JSON files, and so the checksums of the others."""

    shards: tuple[Shard, ...]
    dimension: int
    dtype: str
    encoder: dict[str, Any]
    probe: np.ndarray | None  # float32 (P, D)
    label_names: tuple[str, ...] | None
    sha256: str


def begin_corpus(folder: Path, shared: dict[str, Any]) -> None:
    """Write ``corpus.json``, or check that the existing one is the same, but for the last bits of the probe."""
    folder.mkdir(parents=True, exist_ok=True)
    new = {"format": FORMAT, "version": VERSION, **shared}
    if not (folder / CORPUS).exists():
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".corpus-", delete=False) as file:
            json.dump(new, file, indent=2)
        Path(file.name).chmod(0o644)
        with contextlib.suppress(FileExistsError):  # another task was first
            os.link(file.name, folder / CORPUS)
        os.unlink(file.name)
    there = json.loads((folder / CORPUS).read_text(encoding="utf-8"))
    for name in sorted((new.keys() | there.keys()) - {"probe"}):
        if there.get(name) != new.get(name):
            difference = _difference(name, there.get(name), new.get(name))
            raise ValueError(
                f"{folder} was begun otherwise: {difference}. Go on as it was begun, or take a new folder."
            )


def is_finished(folder: Path, task: int) -> bool:
    """Whether the shard of a task is complete."""
    return (folder / f"{task:05d}.json").is_file()


def count_documents(folder: Path, tasks: int, since: float = math.inf) -> tuple[int, int]:
    """Count the documents in finished shards and in those that grew ``since`` a time; and the finished shards."""
    finished = [folder / f"{task:05d}.json" for task in range(tasks) if is_finished(folder, task)]
    rows = sum(json.loads(file.read_text())["rows"] for file in finished)
    for file in folder.glob(f".*-*/{PROGRESS}"):
        with contextlib.suppress(FileNotFoundError):  # its shard was finished meanwhile
            rows += int(file.read_text() or 0) if file.stat().st_mtime >= since else 0
    return rows, len(finished)


class ShardWriter:
    """Context that writes the shard of a task: at its end the shard is there, and after an error nothing is.

    The keys are held in memory until then. Files that a killed process left of the same shard are deleted.
    """

    def __init__(self, folder: Path, task: int, dimension: int, dtype: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._folder = folder
        self._name = f"{task:05d}"
        for left in folder.glob(f".{self._name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        self._place = Path(tempfile.mkdtemp(prefix=f".{self._name}-", dir=folder))
        columns = {"id": pa.string(), "text": pa.string(), "label": pa.string(), "passages": pa.int32()}
        self._schema = pa.schema(columns)
        self._table_file = self._place / f"{self._name}.parquet"
        self._table = pq.ParquetWriter(self._table_file, self._schema, compression="zstd", store_schema=False)
        self._keys = [np.empty((0, dimension), dtype)]
        self._rows = 0

    def add(
        self, ids: Sequence[str], texts: Sequence[str | None], labels: Sequence[str | None], keys: np.ndarray
    ) -> None:
        """Append documents, and a key of each, ``(n, D)``."""
        import pyarrow as pa

        self._table.write_table(pa.table([ids, texts, labels, [1] * len(ids)], schema=self._schema))
        self._keys.append(keys.astype(self._keys[0].dtype))
        self._rows += len(ids)
        (self._place / PROGRESS).write_text(str(self._rows))

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        try:
            self._table.close()
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self._place, ignore_errors=True)

    def _finish(self) -> None:
        from safetensors.numpy import save_file

        keys_file = self._place / f"{self._name}.safetensors"
        manifest_file = self._place / f"{self._name}.json"
        save_file({"keys": np.concatenate(self._keys)}, keys_file)
        open_to_readers(self._place)
        files = {file.name: sha256_of_file(file) for file in (self._table_file, keys_file)}
        manifest_file.write_text(json.dumps({"rows": self._rows, "passages": self._rows, "sha256": files}, indent=2))
        for file in (self._table_file, keys_file, manifest_file):
            flush(file)
            os.replace(file, self._folder / file.name)


def read_shards(folder: str | Path) -> Shards:
    """Read the manifests of a folder's finished shards, in order; of the other files only the sizes are checked."""
    folder = Path(folder)
    path = folder / CORPUS
    if not path.is_file():
        raise FileNotFoundError(f"There is no {CORPUS} in {folder}: name a folder that EmbedDocuments has written.")
    manifests: list[bytes] = []
    corpus = _read(path, _FIELDS, manifests)
    _require(corpus["format"] == FORMAT, path, f"the format is {corpus['format']!r}, not {FORMAT!r}")
    if corpus["version"] > VERSION:
        raise ShardsError(f"{path} says version {corpus['version']}: upgrade docsplit_hf, which reads up to {VERSION}.")
    _require(corpus["dtype"] in ("float32", "float16"), path, f"dtype is {corpus['dtype']!r}")
    for name in ("version", "tasks", "dimension"):
        _require(corpus[name] >= 1, path, f"{name} is {corpus[name]}")
    names = corpus.get("label_names")
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    _require(names is None or (are_names and len(set(names)) == len(names)), path, f"label_names is {names!r}")
    if missing := [task for task in range(corpus["tasks"]) if not is_finished(folder, task)]:
        unfinished = f"{len(missing)} of {corpus['tasks']} shards are not finished, the first is {missing[0]:05d}"
        raise ShardsError(f"{folder}: {unfinished}: run the tasks again, finished ones are skipped.")
    shards = tuple(_read_shard(folder, f"{task:05d}", manifests) for task in range(corpus["tasks"]))
    return Shards(
        shards=shards,
        dimension=corpus["dimension"],
        dtype=corpus["dtype"],
        encoder=corpus["encoder"],
        probe=_read_probe(path, corpus),
        label_names=None if names is None else tuple(names),
        sha256=sha256_of_parts(bytes.fromhex(sha256_of_parts([manifest])) for manifest in manifests),
    )


def _difference(name: str, there: Any, new: Any) -> str:
    if isinstance(there, dict) and isinstance(new, dict):
        keys = [key for key in sorted(there.keys() | new.keys()) if there.get(key) != new.get(key)]
        return ", ".join(f"{name} {key} is {there.get(key)!r} there and {new.get(key)!r} now" for key in keys)
    return f"{name} is {there!r} there and {new!r} now"


def _read_shard(folder: Path, name: str, manifests: list[bytes]) -> Shard:
    path = folder / f"{name}.json"
    manifest = _read(path, _SHARD_FIELDS, manifests)
    rows = manifest["rows"]
    passages = manifest["passages"]
    sha256 = manifest["sha256"]
    _require(0 <= rows <= passages, path, f"there are {passages} passages of {rows} rows")
    table = f"{name}.parquet"
    keys = f"{name}.safetensors"
    _require(set(sha256) == {table, keys}, path, f"files are {sorted(sha256)}, not {[table, keys]}")
    _require(all(isinstance(value, str) for value in sha256.values()), path, "a checksum is not a string")
    for file in (table, keys):
        if not (folder / file).is_file():
            raise ShardsError(f"{folder / file} is missing: delete {path}, and run the task again.")
    return Shard(
        table=folder / table,
        keys=folder / keys,
        sha256={folder / file: value for file, value in sha256.items()},
        rows=rows,
        passages=passages,
    )


def _read_probe(path: Path, corpus: dict[str, Any]) -> np.ndarray | None:
    if corpus.get("probe") is None:
        return None
    try:
        probe = np.asarray(corpus["probe"], dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ShardsError(f"{path}: the probe is no matrix of numbers: {error}.") from error
    fits = probe.ndim == 2 and probe.shape[1] == corpus["dimension"] and np.isfinite(probe).all()
    _require(fits, path, f"the probe has shape {probe.shape}, not {corpus['dimension']} wide, or is not finite")
    return probe


def _read(path: Path, fields: dict[str, type], manifests: list[bytes]) -> dict[str, Any]:
    content = path.read_bytes()
    manifests.append(content)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ShardsError(f"{path} is damaged, it is no JSON: {error}. Run the task again.") from error
    _require(isinstance(manifest, dict), path, "it is no object")
    for name, kind in fields.items():
        _require(type(manifest.get(name)) is kind, path, f"{name} is {manifest.get(name)!r}, not {kind.__name__}")
    return manifest


def _require(condition: bool, path: Path, otherwise: str) -> None:
    if not condition:
        raise ShardsError(f"{path}: {otherwise}.")
