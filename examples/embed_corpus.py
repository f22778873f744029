"""Embed the texts of a .jsonl file by many tasks of datatrove, into a folder of shards.

    python examples/embed_corpus.py documents.jsonl shards --tasks 64

The same command continues an interrupted run. Change the blocks for other sources and filters: docs/corpus.md.
"""

import argparse
import os

from datatrove.executor import LocalPipelineExecutor

from docsplit_hf.connectors.datatrove import EmbedDocuments, JsonlRangeReader
from docsplit_hf.cores import core_count
from docsplit_hf.storage.shards import read_shards


def main() -> None:
    """Embed the file with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("documents", help="the .jsonl file, with the column text and, if there is one, id")
    parser.add_argument("shards", help="the folder for the shards")
    parser.add_argument("--tasks", type=int, default=16, help="number of shards; at least as many as cores")
    parser.add_argument("--workers", type=int, default=core_count(), help="tasks that run at a time")
    parser.add_argument("--model", help="an encoder on the Hub or a folder; without it, the included one")
    given = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a process already runs on each core
    size = os.path.getsize(given.documents)
    embed = EmbedDocuments(given.shards, given.model, source={"file": os.path.basename(given.documents), "size": size})
    embed.begin(given.tasks)  # raises errors of the encoder or the folder before any task starts
    LocalPipelineExecutor(
        [JsonlRangeReader(given.documents), embed],
        tasks=given.tasks,
        workers=min(given.workers, given.tasks),
        logging_dir=os.path.join(given.shards, "logs"),
        skip_completed=False,  # datatrove still counts a task as completed after its shard was deleted
    ).run()
    documents = sum(read_shards(given.shards).files.values())
    print(f"{documents:,} documents in {given.tasks} of {given.tasks} shards: {given.shards}")


if __name__ == "__main__":
    main()
