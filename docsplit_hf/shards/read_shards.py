"""Read what a folder of shards says of itself; each field is checked, and no file outside the folder can be named."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .write_shards import CORPUS, FORMAT, VERSION

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
    """A folder of shards. ``sha256`` is of all that it says, the checksums of the files among it."""

    shards: tuple[Shard, ...]
    dimension: int
    dtype: str
    encoder: dict[str, Any]
    probe: np.ndarray | None  # float32 (P, D)
    label_names: tuple[str, ...] | None
    sha256: str


def read_shards(folder: str | Path) -> Shards:
    """The shards of a folder, all of them finished, in their order. Of the data only the sizes are looked at."""
    folder = Path(folder)
    path = folder / CORPUS
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {CORPUS} in {folder}: name a folder of shards, as EmbedDocuments writes it."
        )
    digest = hashlib.sha256()
    corpus = _read(path, _FIELDS, digest)
    _require(corpus["format"] == FORMAT, path, f"the format is {corpus['format']!r}, not {FORMAT!r}")
    if corpus["version"] > VERSION:
        raise ShardsError(f"{path} says version {corpus['version']}: upgrade docsplit_hf, which reads up to {VERSION}.")
    _require(corpus["dtype"] in ("float32", "float16"), path, f"dtype is {corpus['dtype']!r}")
    for name in ("version", "tasks", "dimension"):
        _require(corpus[name] >= 1, path, f"{name} is {corpus[name]}")
    names = corpus.get("label_names")
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    _require(names is None or (are_names and len(set(names)) == len(names)), path, f"label_names is {names!r}")
    missing = [task for task in range(corpus["tasks"]) if not (folder / f"{task:05d}.json").is_file()]
    if missing:
        raise ShardsError(
            f"{folder}: {len(missing)} of {corpus['tasks']} shards are not finished, the first is {missing[0]:05d}: "
            "run the tasks again, finished ones are skipped."
        )
    shards = tuple(_read_shard(folder, f"{task:05d}", digest) for task in range(corpus["tasks"]))
    probe = _read_probe(path, corpus)
    names = None if names is None else tuple(names)
    return Shards(shards, corpus["dimension"], corpus["dtype"], corpus["encoder"], probe, names, digest.hexdigest())


def _read_shard(folder: Path, name: str, digest: Any) -> Shard:
    path = folder / f"{name}.json"
    manifest = _read(path, _SHARD_FIELDS, digest)
    rows, passages, sha256 = manifest["rows"], manifest["passages"], manifest["sha256"]
    _require(0 <= rows <= passages, path, f"there are {passages} passages of {rows} rows")
    table, keys = f"{name}.parquet", f"{name}.safetensors"
    _require(set(sha256) == {table, keys}, path, f"files are {sorted(sha256)}, not {[table, keys]}")
    _require(all(isinstance(value, str) for value in sha256.values()), path, "a checksum is not a string")
    for file in (table, keys):
        if not (folder / file).is_file():
            raise ShardsError(f"{folder / file} is missing: delete {path}, and run the task again.")
    return Shard(folder / table, folder / keys, {folder / f: value for f, value in sha256.items()}, rows, passages)


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


def _read(path: Path, fields: dict[str, type], digest: Any) -> dict[str, Any]:
    content = path.read_bytes()
    digest.update(hashlib.sha256(content).digest())
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
