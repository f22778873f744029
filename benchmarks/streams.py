"""Measure how several processes and their workers read a streamed corpus: documents per second, and bytes.

    python benchmarks/streams.py --file documents.jsonl

The file is a .jsonl file with a column "text". Each process reads, segments and collates its share of the documents, as
pretraining does, with one thread; nothing is trained. The bytes are what the readers asked the system for, of the disk
or of its cache (/proc, Linux only). A stream of one shard, as a compressed file is, is read whole by each process: the
last rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from itertools import islice
from pathlib import Path

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from docsplit_hf import DataCollatorForDocSplit, default_checkpoint, load_documents, segment_documents
from docsplit_hf.pretraining.streaming import RepeatedStream
from docsplit_hf.training.markdown import table

BATCH, MAX_LENGTH = 32, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, required=True, help="a .jsonl file with a column 'text'")
    parser.add_argument("--share", type=float, default=0.9, help="of its documents that are read (%(default)s)")
    arguments = parser.parse_args()
    with open(arguments.file, "rb") as file:
        documents = int(sum(1 for _ in file) * arguments.share)
    rows = []
    configurations = [("ranges", processes, workers) for workers in (0, 2) for processes in (1, 2)]
    for shards, processes, workers in [*configurations, ("one", 2, 0), ("one", 2, 2)]:
        seconds, read, busy = measure(arguments.file, shards, processes, workers, documents)
        rates = (f"{documents / taken:,.0f}" for taken in (seconds, busy))
        rows.append((shards, str(processes), str(workers), *rates, f"{read / 1e6:,.0f}"))
        print(*rows[-1], flush=True)
    print(f"{documents:,} documents of a file of {arguments.file.stat().st_size / 1e6:,.0f} MB.\n")
    header = "shards", "processes", "workers of each", "documents/s in all", "documents/CPU second", "MB read in all"
    print(table(header, rows))


def measure(file: Path, shards: str, processes: int, workers: int, documents: int) -> tuple[float, int, float]:
    """Seconds from the start of all processes to the end of the last; the bytes and the CPU seconds of all of them."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes + 1), context.Queue()
    given = file, shards, processes, workers, documents // processes
    started = [context.Process(target=read, args=(index, *given, barrier, results)) for index in range(processes)]
    for process in started:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    found = [results.get() for _ in started]
    seconds = time.perf_counter() - start
    for process in started:
        process.join()
    read_by_all, busy = (sum(column) for column in zip(*found, strict=True))
    return seconds, read_by_all, busy


def read(index, file, shards, processes, workers, documents, barrier, results) -> None:
    """What one process of a training reads, on one thread; it reports the bytes and the CPU seconds."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(default_checkpoint())
    if shards == "one":
        source = datasets.load_dataset("json", data_files=str(file), split="train", streaming=True)
        texts = load_documents(source, test_size=0)["train"]
    else:
        texts = load_documents(file, streaming=True, test_size=0)["train"]
    stream = RepeatedStream(segment_documents(texts, tokenizer), index, processes)
    collator = DataCollatorForDocSplit(tokenizer, max_length=MAX_LENGTH)
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(stream, batch_size=BATCH, collate_fn=collator, **options)
    before, busy_before = bytes_read("self"), time.process_time()
    barrier.wait()
    batches = iter(loader)  # as long as it is there, so are its workers
    for _ in islice(batches, documents // BATCH):
        pass
    readers = [process.pid for process in multiprocessing.active_children()]
    busy = time.process_time() - busy_before + sum(map(cpu_seconds, readers))
    results.put((sum(map(bytes_read, readers)) if workers else bytes_read("self") - before, busy))


def cpu_seconds(process: int) -> float:
    """What a process has computed since it began."""
    user, system = Path(f"/proc/{process}/stat").read_text().rsplit(")")[-1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def bytes_read(process: int | str) -> int:
    """What a process has read since it began."""
    return int(Path(f"/proc/{process}/io").read_text().split("rchar:")[1].split()[0])


if __name__ == "__main__":
    main()
