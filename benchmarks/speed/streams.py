"""Measure the reading of a streamed corpus by several processes and their workers: documents per second, and bytes.

    python -m benchmarks.speed.streams --file documents.jsonl

The file is a .jsonl file with a column "text". Each process reads, segments and collates its share of the documents
like pretraining, with one thread, without training. The bytes are those that the readers requested from the system,
from the disk or its cache (/proc, Linux only). The last rows show a stream of a single shard, such as a compressed
file, which every process reads completely.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

from docsplit_hf import DataCollatorForDocSplit, default_checkpoint, load_documents, segment_documents
from docsplit_hf.pretraining.streaming import RepeatedStream
from docsplit_hf.training.markdown import table

BATCH = 32
MAX_LENGTH = 128


class Reader(NamedTuple):
    """The arguments of the processes that read."""

    file: Path
    shards: str  # "ranges" or "one"
    processes: int
    workers: int  # of each process
    documents: int  # of each process


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
        seconds, bytes_of_all, busy = measure(
            Reader(arguments.file, shards, processes, workers, documents=documents // processes)
        )
        rates = (f"{documents / seconds:,.0f}", f"{documents / busy:,.0f}")
        rows.append((shards, str(processes), str(workers), *rates, f"{bytes_of_all / 1e6:,.0f}"))
        print(*rows[-1], flush=True)
    print(f"{documents:,} documents of a file of {arguments.file.stat().st_size / 1e6:,.0f} MB.\n")
    header = ("shards", "processes", "workers of each", "documents/s in all", "documents/CPU second", "MB read in all")
    print(table(header, rows))


def measure(reader: Reader) -> tuple[float, int, float]:
    """Seconds from the start of all processes to the end of the last; the bytes and the CPU seconds of all of them."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(reader.processes + 1)
    results = context.Queue()
    started = [
        context.Process(target=read, args=(index, reader, barrier, results)) for index in range(reader.processes)
    ]
    for process in started:
        process.start()
    barrier.wait()
    start = time.perf_counter()
    found = [results.get() for _ in started]
    seconds = time.perf_counter() - start
    for process in started:
        process.join()
    bytes_of_all = sum(bytes_of_one for bytes_of_one, _ in found)
    busy = sum(busy_of_one for _, busy_of_one in found)
    return seconds, bytes_of_all, busy


def read(index: int, reader: Reader, barrier: Any, results: Any) -> None:
    """Read like one process of a training, on one thread; put its bytes and CPU seconds into ``results``."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(default_checkpoint())
    if reader.shards == "one":
        source = datasets.load_dataset("json", data_files=str(reader.file), split="train", streaming=True)
        texts = load_documents(source, test_size=0)["train"]
    else:
        texts = load_documents(reader.file, streaming=True, test_size=0)["train"]
    stream = RepeatedStream(segment_documents(texts, tokenizer), index, reader.processes)
    loader = DataLoader(
        stream,
        batch_size=BATCH,
        collate_fn=DataCollatorForDocSplit(tokenizer, max_length=MAX_LENGTH),
        num_workers=reader.workers,
        multiprocessing_context="fork" if reader.workers else None,
    )
    bytes_before = bytes_read("self")
    busy_before = time.process_time()
    barrier.wait()
    batches = iter(loader)  # this reference keeps the workers alive
    for _ in islice(batches, reader.documents // BATCH):
        pass
    workers = [process.pid for process in multiprocessing.active_children()]
    busy = time.process_time() - busy_before + sum(map(cpu_seconds, workers))
    if reader.workers:
        bytes_of_process = sum(map(bytes_read, workers))
    else:
        bytes_of_process = bytes_read("self") - bytes_before
    results.put((bytes_of_process, busy))


def cpu_seconds(process: int) -> float:
    """The processor's seconds of a process since its start."""
    user, system = Path(f"/proc/{process}/stat").read_text().rsplit(")")[-1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def bytes_read(process: int | str) -> int:
    """The bytes that a process has read since its start."""
    return int(Path(f"/proc/{process}/io").read_text().split("rchar:")[1].split()[0])


if __name__ == "__main__":
    main()
