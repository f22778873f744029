"""Folders of shards, written by hand."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

NAMES = ["fruit", "mineral", "vegetable"]


def write_shards(folder, keys, sizes=(1, 2), labels=None, names=NAMES, texts=None, **corpus):
    """Write shards of keys ``(N, D)``; ``sizes``: their proportions; ids "0", "1", ...; labels by name."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = np.cumsum(sizes) * len(keys) // sum(sizes)
    description = {"format": "docsplit_hf shards", "version": 1, "tasks": len(sizes), "dimension": keys.shape[1]}
    description |= {"dtype": keys.dtype.name, "encoder": {"name": "made up"}, "probe": None, "label_names": names}
    (folder / "corpus.json").write_text(json.dumps(description | corpus))
    start = 0
    for task, end in enumerate(ends.tolist()):
        rows = range(start, end)
        columns = {
            "id": pa.array([str(row) for row in rows], pa.string()),
            "text": pa.array([f"Text {row}" if texts is None else texts[row] for row in rows], pa.large_string()),
            "label": pa.array([None if labels is None else labels[row] for row in rows], pa.string()),
            "passages": pa.array([1] * len(rows), pa.int32()),
        }
        pq.write_table(pa.table(columns), folder / f"{task:05d}.parquet")
        save_file({"keys": np.ascontiguousarray(keys[start:end])}, folder / f"{task:05d}.safetensors")
        seal(folder, task, len(rows))
        start = end
    return folder


def seal(folder, task, rows, **changes):
    """Write the manifest of a shard for its current files."""
    names = [f"{task:05d}.parquet", f"{task:05d}.safetensors"]
    sha256 = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    manifest = {"rows": rows, "passages": rows, "sha256": sha256} | changes
    (folder / f"{task:05d}.json").write_text(json.dumps(manifest))
