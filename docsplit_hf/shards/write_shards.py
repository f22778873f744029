"""Write a folder of shards: each task its own, whole or not at all.

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
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..models.checkpoints.atomic_replacement import open_to_readers
from ..models.checkpoints.checksum import sha256_of

CORPUS, FORMAT, VERSION = "corpus.json", "docsplit_hf shards", 1
PROGRESS = "rows"  # in the folder of a shard that is being written: how many documents it has so far


def begin_corpus(folder: Path, shared: dict[str, Any]) -> None:
    """Write ``corpus.json``, or check that the one that is there says the same; a probe may differ in its last bits.

    ``shared``: ``tasks``, ``dimension``, ``dtype``, ``encoder`` (with its ``fingerprint``), ``source``, ``probe`` and
    ``label_names``. Of tasks that begin at the same time, the first one writes.
    """
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
            raise ValueError(
                f"{folder} was begun otherwise: {_difference(name, there.get(name), new.get(name))}. Go on as it was "
                "begun, or take a new folder."
            )


def is_finished(folder: Path, task: int) -> bool:
    """Whether the shard of a task is there."""
    return (folder / f"{task:05d}.json").is_file()


def count_documents(folder: Path, tasks: int, since: float = math.inf) -> tuple[int, int]:
    """How many documents are in finished shards and in those that grew ``since`` then; how many are finished."""
    finished = [folder / f"{task:05d}.json" for task in range(tasks) if is_finished(folder, task)]
    rows = sum(json.loads(file.read_text())["rows"] for file in finished)
    for file in folder.glob(f".*-*/{PROGRESS}"):
        with contextlib.suppress(FileNotFoundError):  # its shard was finished meanwhile
            rows += int(file.read_text() or 0) if file.stat().st_mtime >= since else 0
    return rows, len(finished)


class ShardWriter:
    """Writes the shard of a task, as a context: at its end the shard is there, and after an error nothing is.

    The keys are held in memory until then. What a killed process left of the same shard is deleted first.
    """

    def __init__(self, folder: Path, task: int, dimension: int, dtype: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._folder, self._name = folder, f"{task:05d}"
        for left in folder.glob(f".{self._name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        self._place = Path(tempfile.mkdtemp(prefix=f".{self._name}-", dir=folder))
        columns = {"id": pa.string(), "text": pa.string(), "label": pa.string(), "passages": pa.int32()}
        self._schema, self._table_file = pa.schema(columns), self._place / f"{self._name}.parquet"
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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._table.close()
            if kind is None:
                self._finish()
        finally:
            shutil.rmtree(self._place, ignore_errors=True)

    def _finish(self) -> None:
        from safetensors.numpy import save_file

        keys_file, manifest_file = (self._place / f"{self._name}.{ending}" for ending in ("safetensors", "json"))
        save_file({"keys": np.concatenate(self._keys)}, keys_file)
        open_to_readers(self._place)
        files = {file.name: sha256_of(file) for file in (self._table_file, keys_file)}
        manifest_file.write_text(json.dumps({"rows": self._rows, "passages": self._rows, "sha256": files}, indent=2))
        for file in (self._table_file, keys_file, manifest_file):
            with open(file, "rb+") as written:
                os.fsync(written.fileno())
            os.replace(file, self._folder / file.name)


def _difference(name: str, there: Any, new: Any) -> str:
    if isinstance(there, dict) and isinstance(new, dict):
        keys = [key for key in sorted(there.keys() | new.keys()) if there.get(key) != new.get(key)]
        return ", ".join(f"{name} {key} is {there.get(key)!r} there and {new.get(key)!r} now" for key in keys)
    return f"{name} is {there!r} there and {new!r} now"
