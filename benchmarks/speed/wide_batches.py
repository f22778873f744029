"""Peak memory and time of the contrastive loss alone, forward and backward, for wide batches.

    python -m benchmarks.speed.wide_batches
    python -m benchmarks.speed.wide_batches --documents 4096 65536 --record output/wide_batches.jsonl
    python -m benchmarks.speed.wide_batches --dry_run

Two random views of each document are compared, as one matrix, by blocks, and by the loss of sentence-transformers'
CachedMultipleNegativesRankingLoss over embeddings that it has cached, in mini-batches. All compute in float32.

Each run is a process of its own. The peak is what the loss needs on top of the embeddings: on a CPU resident memory, on
a GPU what torch had allocated there. On Linux, a process on a CPU gets no more memory than is available at its start,
and no more than --most_gibibytes; the table shows which runs do not fit.
"""

import argparse
import datetime
import json
import resource
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import psutil
import torch

from benchmarks.inputs import DEVICE
from benchmarks.speed.memory import MEBIBYTE, OUT_OF_MEMORY, peak
from benchmarks.speed.side_by_side import now, ran_on
from docsplit_hf.pretraining import info_nce
from docsplit_hf.training.markdown import table

TEMPERATURE = 0.05
MATRIX = "one matrix"
BLOCKS = "by blocks"
RIVAL = "sentence-transformers, cached"
DRY_RUN = "--documents 96 --dimensions 8 --block_size 32 --mini_batches 16 --rounds 1".split()


class Run(NamedTuple):
    """A batch size, how the loss is computed, and the documents in a block or a mini-batch."""

    documents: int
    way: str
    size: int | None

    def name(self) -> str:
        return self.way if self.size is None else f"{self.way}, {self.size:,} documents at once"


class Measured(NamedTuple):
    """The measurements of one process."""

    peak: int  # bytes on top of the embeddings
    seconds: float
    loss: float  # the mean over the documents


def main() -> None:
    arguments = sys.argv[1:]
    options = parse(arguments if "--dry_run" not in arguments else [*DRY_RUN, *arguments])
    if options.process:
        print(json.dumps(measure(options, Run(*json.loads(options.process)))))
        return
    print(
        f"{options.dimensions} dimensions, float32, temperature {TEMPERATURE}. At most {options.most_gibibytes:g} GiB. "
        f"Medians of {options.rounds} rounds. {ran_on()}\n"
    )
    rows = []
    for run in runs(options):
        measured = measure_rounds(options, arguments, run)
        if options.record:
            write_record(options, run, measured)
        rows.append((f"{run.documents:,}", run.name(), *cells_of(measured)))
    print(table(("documents", "loss", "peak, MiB", "seconds", "mean loss"), rows))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--documents", type=int, nargs="+", default=[4096, 16384, 32768], help="Default: %(default)s.")
    add("--dimensions", type=int, default=768, help="Default: %(default)s.")
    add("--block_size", type=int, default=info_nce.BLOCK_SIZE, help="Documents of a block. Default: %(default)s.")
    add("--mini_batches", type=int, nargs="*", default=[64, 512], help="Of the rival. Default: %(default)s.")
    add("--rounds", type=int, default=3, help="How often each is measured. Default: %(default)s.")
    add("--most_gibibytes", type=float, default=8.0, help="Memory of a process on a CPU. Default: %(default)s.")
    add("--record", type=Path, help="A JSONL file to add a line to for each run.")
    add("--dry_run", action="store_true", help="Small sizes, in a minute.")
    add("--process", help=argparse.SUPPRESS)  # a run, for one of the processes
    return parser.parse_args(arguments)


def runs(options: argparse.Namespace) -> list[Run]:
    found = []
    for documents in options.documents:
        found += [Run(documents, MATRIX, None), Run(documents, BLOCKS, options.block_size)]
        found += [Run(documents, RIVAL, size) for size in options.mini_batches]
    return found


def measure_rounds(options: argparse.Namespace, arguments: list[str], run: Run) -> list[Measured]:
    """The measurements of a run, each in a fresh process; none if it does not fit into memory."""
    measured = []
    command = [sys.executable, "-m", "benchmarks.speed.wide_batches", *arguments, "--process", json.dumps(run)]
    for _ in range(options.rounds):
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            measured.append(Measured(*json.loads(result.stdout.splitlines()[-1])))
        elif result.returncode == -signal.SIGKILL or any(words in result.stderr for words in OUT_OF_MEMORY):
            return []
        else:
            raise SystemExit(f"{run} failed:\n{result.stderr}")
    return measured


def measure(options: argparse.Namespace, run: Run) -> Measured:
    """Compute the loss and its gradients once. Called in a process of its own."""
    if DEVICE == "cpu" and sys.platform == "linux":
        limit_memory(options.most_gibibytes)
    small = Run(min(run.documents, 64), run.way, run.size)
    loss_and_gradients(small, options.dimensions)()  # loads kernels
    compute = loss_and_gradients(run, options.dimensions)
    start = memory_now()
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
    started = now()
    loss = compute()
    seconds = now() - started
    return Measured(peak=peak() - start, seconds=seconds, loss=loss.item())


def loss_and_gradients(run: Run, dimensions: int) -> Callable[[], torch.Tensor]:
    """A function that computes the mean loss of random embeddings, and the gradients of all embeddings."""
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randn(run.documents, dimensions, generator=generator)
    positives = torch.randn(run.documents, dimensions, generator=generator).mul_(2).add_(anchors)  # cosine: 0.45
    anchors = anchors.to(DEVICE)
    positives = positives.to(DEVICE)
    if run.way == RIVAL:
        return rival_loss(anchors, positives, run.size)
    document_ids = torch.arange(run.documents, device=DEVICE)
    anchors.requires_grad_()
    positives.requires_grad_()

    def compute() -> torch.Tensor:
        with mock.patch.object(info_nce, "BLOCK_SIZE", run.size or run.documents):
            loss = info_nce.info_nce(
                anchors, positives, TEMPERATURE, anchor_ids=document_ids, candidate_ids=document_ids
            ).loss.mean()
            loss.backward()
        return loss.detach()

    return compute


def rival_loss(anchors: torch.Tensor, positives: torch.Tensor, mini_batch: int) -> Callable[[], torch.Tensor]:
    """The loss of sentence-transformers, called as by its ``forward_cached``, with the embeddings of mini-batches."""
    from sentence_transformers import SentenceTransformer  # seconds, which processes of the other ways save
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Normalize

    model = SentenceTransformer(modules=[Normalize()], device=DEVICE)  # embeds nothing here
    rival = CachedMultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE, mini_batch_size=mini_batch)
    cached = []
    for view in (anchors, positives):
        cached.append([part.detach().requires_grad_() for part in view.split(mini_batch)])
    return lambda: rival.calculate_loss(cached, with_backward=True)


def memory_now() -> int:
    """The memory in use in bytes: of the process, or of torch on the GPU."""
    if DEVICE == "cuda":
        return torch.cuda.memory_allocated()
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return peak()


def limit_memory(gibibytes: float) -> None:
    available = psutil.virtual_memory().available  # with the cache of files, which gives way
    most = min(int(0.9 * available), int(gibibytes * 2**30))
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))


def write_record(options: argparse.Namespace, run: Run, measured: list[Measured]) -> None:
    """Append the measurements of a run; lists of no rounds if it does not fit into memory."""
    row = {
        "documents": run.documents,
        "dimensions": options.dimensions,
        "way": run.way,
        "at_once": run.size,
        "peaks": [each.peak for each in measured],
        "seconds": [each.seconds for each in measured],
        "losses": [each.loss for each in measured],
        "most_gibibytes": options.most_gibibytes if DEVICE == "cpu" else None,
        "date": datetime.date.today().isoformat(),
        "ran_on": ran_on(),
    }
    options.record.parent.mkdir(parents=True, exist_ok=True)
    with options.record.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


def cells_of(measured: list[Measured]) -> tuple[str, str, str]:
    if not measured:
        return "does not fit", "", ""
    memory = statistics.median(each.peak for each in measured) / MEBIBYTE
    seconds = statistics.median(each.seconds for each in measured)
    return f"{memory:,.0f}", f"{seconds:,.3f}", f"{measured[0].loss:.5f}"


if __name__ == "__main__":
    main()
