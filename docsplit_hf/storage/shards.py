"""Shards: a folder with the keys, ids, texts and labels of a corpus; each task writes a shard completely or not at all.

A folder has these files, the last three for each task::

    corpus.json        settings of all shards: the encoder, the number of tasks, dimension and dtype of the keys
    00000.parquet      a row for each document: ``id``, ``text`` (null if not kept), ``label`` (or null), ``passages``
    00000.safetensors  ``keys``, (N, D), in the order of the documents
    00000.json         numbers of documents and passages, checksums of both files; written last: it completes a shard
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..content_hash import sha256_of_file, sha256_of_parts
from .atomic_replacement import apply_umask_to_weights, flush

CORPUS = "corpus.json"
FORMAT = "docsplit_hf shards"
VERSION = 1
DTYPES = ("float16", "float32")  # of the embeddings on the disk
_FIELDS = {"format": str, "version": int, "tasks": int, "dimension": int, "dtype": str, "encoder": dict}
_SHARD_FIELDS = {"rows": int, "passages": int, "sha256": dict}


class ShardsError(ValueError):
    """A folder of shards is damaged, incomplete or of another format."""


@dataclass(frozen=True)
class Shard:
    """A shard: its files, their checksums, and its numbers of documents and passages."""

    table: Path
    keys: Path
    sha256: dict[Path, str]
    rows: int
    passages: int


@dataclass(frozen=True)
class Shards:
    """A folder of shards."""

    shards: tuple[Shard, ...]
    dimension: int
    dtype: str
    encoder: Mapping[str, Any]  # its description in corpus.json
    probe: np.ndarray | None  # float32 (P, D)
    label_names: tuple[str, ...] | None
    sha256: str  # of all JSON files, which contain the checksums of the other files


def begin_corpus(folder: Path, shared: Mapping[str, Any]) -> None:
    """Write ``corpus.json``, or check that an existing one has the same content, except the probe.

    ``shared``: the settings of all shards, as JSON values. The probe may differ in its last bits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = {"format": FORMAT, "version": VERSION, **shared}
    if not (folder / CORPUS).exists():
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".corpus-", delete=False) as file:
            json.dump(new, file, indent=2)
        Path(file.name).chmod(0o644)
        with contextlib.suppress(FileExistsError):  # another task has written it
            os.link(file.name, folder / CORPUS)
        os.unlink(file.name)
    existing = json.loads((folder / CORPUS).read_text(encoding="utf-8"))
    for name in sorted((new.keys() | existing.keys()) - {"probe"}):
        if existing.get(name) != new.get(name):
            difference = _difference(name, existing.get(name), new.get(name))
            raise ValueError(
                f"{folder} was begun with other settings: {difference}. Use the same settings, or a new folder."
            )


def is_finished(folder: Path, task: int) -> bool:
    """Whether the shard of a task is complete."""
    return (folder / f"{task:05d}.json").is_file()


class ShardWriter:
    """Context that writes the shard of a task: completely at its end, or not at all after an error.

    Until then the keys are held in memory. Files of the same shard that a killed process has left are deleted.
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
        self,
        ids: Sequence[str],
        texts: Sequence[str | None],
        labels: Sequence[str | None],
        keys: np.ndarray,
    ) -> None:
        """Append n documents, with one key each, ``(n, D)``."""
        import pyarrow as pa

        self._table.write_table(pa.table([ids, texts, labels, [1] * len(ids)], schema=self._schema))
        self._keys.append(keys.astype(self._keys[0].dtype))
        self._rows += len(ids)

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
        """Write all files, and move them into the folder; the manifest last."""
        from safetensors.numpy import save_file

        keys_file = self._place / f"{self._name}.safetensors"
        manifest_file = self._place / f"{self._name}.json"
        save_file({"keys": np.concatenate(self._keys)}, keys_file)
        apply_umask_to_weights(self._place)
        files = {file.name: sha256_of_file(file) for file in (self._table_file, keys_file)}
        manifest_file.write_text(json.dumps({"rows": self._rows, "passages": self._rows, "sha256": files}, indent=2))
        for file in (self._table_file, keys_file, manifest_file):
            flush(file)
            os.replace(file, self._folder / file.name)


def read_shards(folder: str | Path) -> Shards:
    """Read and check the manifests of a folder of shards; the other files are not read."""
    folder = Path(folder)
    path = folder / CORPUS
    if not path.is_file():
        raise FileNotFoundError(f"There is no {CORPUS} in {folder}: name a folder that EmbedDocuments has written.")
    manifests: list[bytes] = []
    corpus = _read(path, _FIELDS, manifests)
    _require(corpus["format"] == FORMAT, path, f"the format is {corpus['format']!r}, not {FORMAT!r}")
    if corpus["version"] > VERSION:
        raise ShardsError(f"{path} has version {corpus['version']}: upgrade docsplit_hf, which reads up to {VERSION}.")
    _require(corpus["dtype"] in DTYPES, path, f"dtype is {corpus['dtype']!r}")
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


def _difference(name: str, existing: Any, new: Any) -> str:
    """Describe how a setting differs; of a dictionary, only the keys that differ."""
    if isinstance(existing, dict) and isinstance(new, dict):
        keys = [key for key in sorted(existing.keys() | new.keys()) if existing.get(key) != new.get(key)]
        return ", ".join(f"{name} {key} is {existing.get(key)!r} there and {new.get(key)!r} now" for key in keys)
    return f"{name} is {existing!r} there and {new!r} now"


def _read_shard(folder: Path, name: str, manifests: list[bytes]) -> Shard:
    """Read and check the manifest of a shard; its bytes are appended to ``manifests``."""
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


def _read_probe(path: Path, corpus: Mapping[str, Any]) -> np.ndarray | None:
    """Read and check the probe in corpus.json, float32 ``(P, D)``."""
    if corpus.get("probe") is None:
        return None
    try:
        probe = np.asarray(corpus["probe"], dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ShardsError(f"{path}: the probe is not a matrix of numbers: {error}.") from error
    fits = probe.ndim == 2 and probe.shape[1] == corpus["dimension"] and np.isfinite(probe).all()
    _require(fits, path, f"the probe has shape {probe.shape}, not {corpus['dimension']} wide, or is not finite")
    return probe


def _read(path: Path, fields: Mapping[str, type], manifests: list[bytes]) -> dict[str, Any]:
    """Read a JSON file, and check the types of its fields; its bytes are appended to ``manifests``."""
    content = path.read_bytes()
    manifests.append(content)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ShardsError(f"{path} is damaged, it is not JSON: {error}. Run the task again.") from error
    _require(isinstance(manifest, dict), path, "it is not an object")
    for name, kind in fields.items():
        _require(type(manifest.get(name)) is kind, path, f"{name} is {manifest.get(name)!r}, not {kind.__name__}")
    return manifest


def _require(condition: bool, path: Path, problem: str) -> None:
    """Raise an error that names the file, unless a condition holds."""
    if not condition:
        raise ShardsError(f"{path}: {problem}.")
