"""Folders of shards, written as tasks write them."""

import json

import numpy as np
import pyarrow.parquet as pq

from docsplit_hf.storage.shards import SETTINGS, shard_file, shard_table, writing_shard

NAMES = ["fruit", "mineral", "vegetable"]


def write_shards(folder, keys, sizes=(1, 2), labels=None, texts=None, **settings):
    """Write shards of keys ``(N, D)``; ``sizes``: their proportions; ids "0", "1", ...; labels by name."""
    described = {"tasks": len(sizes), "dimension": keys.shape[1], "dtype": keys.dtype.name}
    described |= {"encoder": {"name": "made up"}, "probe": None}
    ends = np.cumsum(sizes) * len(keys) // sum(sizes)
    start = 0
    for task, end in enumerate(ends.tolist()):
        rows = range(start, end)
        with writing_shard(folder, task, described | settings) as shard:
            own_texts = [f"Text {row}" if texts is None else texts[row] for row in rows]
            own_labels = [None if labels is None else labels[row] for row in rows]
            shard.write_table(shard_table([str(row) for row in rows], own_texts, own_labels, keys[start:end]))
        start = end
    return folder


def rewrite(folder, task, change=lambda table: table, **settings):
    """Write a shard again with a changed table, or with changed settings."""
    path = shard_file(folder, task)
    described = json.loads(pq.read_metadata(path).metadata[SETTINGS]) | settings
    table = change(pq.read_table(path))
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.add_key_value_metadata({SETTINGS: json.dumps(described)})
        writer.write_table(table)
