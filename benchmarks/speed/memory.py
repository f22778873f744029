"""Peak memory and time of a training step: large batches, with gradient caching and without.

    python -m benchmarks.speed.memory
    python -m benchmarks.speed.memory --forward_chunk_size 32 --chunked_batches 64 2048 --documents 4096
    python -m benchmarks.speed.memory --processes 2 --batches

Each run is a process of its own, which trains on the same --documents documents, with MLM: at a batch of 64 in 32
steps, at a batch of 1,024 in 2, because the optimizer has its memory from the second on. On a CPU the peak is the
resident memory of the process, and the table also says how much of it came on top of the imported libraries; on a GPU,
it is what torch had allocated there. The table's last row has the ratios of the largest batch to the smallest, both
with --forward_chunk_size.

With --processes 2 the batch is shared by two processes of torch.distributed, and the peak is that of the larger.

On Linux a process gets no more memory than is free at its start, so that nothing else on the machine comes into
trouble; the table shows which batches do not fit.
"""

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

import torch
from datasets import load_from_disk
from transformers import logging

from benchmarks.inputs import DEVICE, argument_parser, describe_model, prepare_checkpoint
from benchmarks.speed.side_by_side import OUT_OF_MEMORY, ran_on
from benchmarks.speed.timed_training import load_segmented, timed_ours
from docsplit_hf.training.markdown import table

MEBIBYTE = 2**20


class Run(NamedTuple):
    """A batch size, and the documents that go through the encoder at once; None: all of the batch."""

    batch: int
    chunk: int | None


class Measured(NamedTuple):
    """The measurements of one process."""

    peak: int  # bytes
    on_top: int  # bytes beyond the imported libraries
    seconds: float


def main() -> None:
    parser = argument_parser(__doc__, rounds=3)
    add = parser.add_argument
    add("--batches", type=int, nargs="*", default=[64, 128, 256], help="All at once. Default: %(default)s.")
    add("--chunked_batches", type=int, nargs="*", default=[64, 1024], help="In chunks. Default: %(default)s.")
    add("--forward_chunk_size", type=int, default=64, help="Documents of a chunk. Default: %(default)s.")
    add("--documents", type=int, default=2048, help="Documents of each run. Default: %(default)s.")
    add("--precision", choices=("bf16", "fp32"), default="fp32", help="Default: %(default)s.")
    add("--processes", type=int, default=1, help="They share the batch. Default: %(default)s.")
    add("--process", nargs=2, help=argparse.SUPPRESS)  # a folder and a run, for one of the processes
    options = parser.parse_args()
    if options.process:
        folder, run = options.process
        print(json.dumps(measure(options, folder, Run(*json.loads(run)))))
        return
    if any(batch % options.processes for batch in options.batches + options.chunked_batches):
        raise SystemExit(f"{options.processes} processes cannot share these batches evenly: nothing is measured.")
    if options.documents < 2 * max(options.batches + options.chunked_batches):
        raise SystemExit("--documents has to be twice the largest batch: nothing is measured.")
    with tempfile.TemporaryDirectory() as folder:
        config = prepare_checkpoint(options, folder)
        load_segmented(options, folder, options.documents).save_to_disk(f"{folder}/documents")
        print(
            f"{describe_model(options, config)}, trained with MLM in {options.precision} on {options.documents:,} "
            f"documents, halves cut at {options.max_length}. Processes: {options.processes}. "
            f"Medians of {options.rounds} rounds. {ran_on()}\n"
        )
        print(report(options, rounds(options, folder)))


def rounds(options: argparse.Namespace, folder: str) -> dict[Run, list[Measured]]:
    """The measurements of all runs. A run that did not fit into memory is not repeated."""
    chunked = [Run(batch, options.forward_chunk_size) for batch in options.chunked_batches]
    measured: dict[Run, list[Measured]] = {run: [] for run in chunked + [Run(batch, None) for batch in options.batches]}
    for turn in range(options.rounds):
        for run, values in measured.items():
            if len(values) == turn:
                found = measure_in_processes(options, folder, run)
                if found is not None:
                    values.append(found)
    return measured


def measure_in_processes(options: argparse.Namespace, folder: str, run: Run) -> Measured | None:
    """The measurements of a run in fresh processes, the largest of each kind; None if it does not fit into memory."""
    together = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.processes)]
    launch = together if options.processes > 1 else []
    command = [sys.executable, *launch, "-m", "benchmarks.speed.memory", *sys.argv[1:]]
    command += ["--process", folder, json.dumps(run)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        processes = [Measured(*json.loads(line)) for line in result.stdout.splitlines()[-options.processes :]]
        return Measured(
            peak=max(process.peak for process in processes),
            on_top=max(process.on_top for process in processes),
            seconds=max(process.seconds for process in processes),
        )
    if result.returncode == -signal.SIGKILL or any(words in result.stderr for words in OUT_OF_MEMORY):
        return None
    raise SystemExit(f"{run} failed:\n{result.stderr}")


def measure(options: argparse.Namespace, folder: str, run: Run) -> Measured:
    """Train, and measure the peak memory. Called in a process of its own."""
    logging.set_verbosity_error()
    documents = load_from_disk(f"{folder}/documents")
    if DEVICE == "cpu" and sys.platform == "linux":
        allow_no_more_than_is_free()
    start = peak()
    train = timed_ours(
        folder,
        documents,
        batch=run.batch // options.processes,
        max_length=options.max_length,
        mlm=True,
        bf16=options.precision == "bf16",
        forward_chunk_size=run.chunk,
    )
    seconds = train()
    return Measured(peak(), peak() - start, seconds)


def peak() -> int:
    """The peak memory until now in bytes: of the process, or of torch on the GPU."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated()
    if sys.platform == "linux":  # ru_maxrss would include the parent process's memory here
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def allow_no_more_than_is_free() -> None:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (int(0.9 * free), resource.RLIM_INFINITY))


def report(options: argparse.Namespace, measured: dict[Run, list[Measured]]) -> str:
    header = ("batch", "documents at once", "peak, MiB", "on top of libraries, MiB", "ms per document")
    medians = {run: median(values) for run, values in measured.items() if values}
    rows = []
    for run in measured:
        cells = ("does not fit", "", "") if run not in medians else cells_of(medians[run], options.documents)
        rows.append((f"{run.batch:,}", "all" if run.chunk is None else f"{run.chunk:,}", *cells))
    chunked = [run for run in medians if run.chunk is not None]
    if len(chunked) > 1:
        smallest = min(chunked)
        largest = max(chunked)
        ratios = [f"x {large / small:.2f}" for large, small in zip(medians[largest], medians[smallest], strict=True)]
        rows.append((f"{largest.batch:,} to {smallest.batch:,}", f"{options.forward_chunk_size:,}", *ratios))
    return table(header, rows)


def median(values: list[Measured]) -> Measured:
    return Measured(
        peak=statistics.median(value.peak for value in values),
        on_top=statistics.median(value.on_top for value in values),
        seconds=statistics.median(value.seconds for value in values),
    )


def cells_of(median: Measured, documents: int) -> tuple[str, str, str]:
    milliseconds = 1000 * median.seconds / documents
    return f"{median.peak / MEBIBYTE:,.0f}", f"{median.on_top / MEBIBYTE:,.0f}", f"{milliseconds:.1f}"


if __name__ == "__main__":
    main()
