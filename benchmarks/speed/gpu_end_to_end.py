"""`docsplit pretrain` from a JSONL file on a GPU, beside the bare step: documents per second, and how busy the GPU is.

    python -m benchmarks.speed.gpu_end_to_end
    python -m benchmarks.speed.gpu_end_to_end --texts articles.jsonl --only "BERT base" --record output/end_to_end.jsonl
    python -m benchmarks.speed.gpu_end_to_end --dry_run    # tiny, also on a CPU

Each run is the command in a process of its own, with random weights, in bfloat16: BERT base in shape with batches of
128 documents, and six layers of 384 dimensions with 256; with MLM and without; with the default number of workers and
with none, in which case the training process makes the batches itself. Two rates are shown: that of the steps after
the first log, until when torch compiles and workers start, and the Trainer's own, of all steps. The former is compared
with the bare step of gpu_step.py, on the same documents. nvidia-smi measures the GPU during the same steps.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.inputs import DEVICE, TINY, load_texts, write_random_weights
from benchmarks.speed.gpu_record import GIGABYTE, append_record, this_card
from benchmarks.speed.gpu_step import OURS, OURS_MLM
from benchmarks.speed.side_by_side import ran_on
from docsplit_hf import ContrastiveTrainingArguments
from docsplit_hf.training.markdown import table

ROOT = Path(__file__).parents[2]
SMALL = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}
LOGS = 8  # of each run; the first is the start of the clock
SAMPLES_PER_SECOND = 5  # of the GPU
TRAINERS_RATE = re.compile(r"'train_samples_per_second': '?([\d.e+]+)")


class Shape(NamedTuple):
    """An encoder, and the documents of its steps."""

    name: str
    sizes: dict[str, int]
    batch: int


class Run(NamedTuple):
    """One training run."""

    shape: Shape
    mlm: bool
    workers: int | None  # None: the default


class Measured(NamedTuple):
    """What was measured of a run."""

    rate: float  # documents per second after the first log
    trainers_rate: float  # of all steps
    busy: float | None  # share of the time in which the GPU computes
    memory_gb: float | None  # as nvidia-smi has it


SHAPES = (Shape("BERT base", {}, 128), Shape("6 layers of 384", SMALL, 256))
DRY_SHAPE = Shape("tiny", TINY, 4)
# With MLM or without, and the workers.
RUNS = ((True, None), (True, 0), (False, None), (False, 0))
DRY_RUNS = ((True, None), (False, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--texts", help="A file with a column 'text', or a folder. Default: documentation of installed packages.")
    add("--documents", type=int, default=4000, help="In the JSONL file, at most. Default: %(default)s.")
    add("--max_length", type=int, default=256, help="Tokens of one half. Default: %(default)s.")
    # A run of fewer than 100 steps has no workers by default.
    add("--steps", type=int, default=120, help="Of each run, a multiple of 8. Default: %(default)s.")
    add("--batches", type=int, nargs=2, help="Documents of a step, of BERT base and of the six layers.")
    add("--only", default="", help="First letters of the shapes. Default: both.")
    add("--defaults", action="store_true", help="Only the default number of workers.")
    add("--record", type=Path, help="A JSONL file to add a line for each run to.")
    add("--dry_run", action="store_true", help="Tiny sizes, also on a CPU.")
    options = parser.parse_args()
    if options.dry_run:
        options.documents = 60
        options.max_length = 32
        options.steps = LOGS
    elif DEVICE == "cpu":
        raise SystemExit("There is no GPU here: --dry_run tries the script on the CPU.")
    if options.steps % LOGS:
        raise SystemExit(f"--steps has to be a multiple of {LOGS}: nothing is measured.")
    shapes = [DRY_SHAPE] if options.dry_run else list(SHAPES)
    if options.batches and not options.dry_run:
        shapes = [shape._replace(batch=batch) for shape, batch in zip(shapes, options.batches, strict=True)]
    print(f"{this_card().describe()}, {os.cpu_count()} processor cores. {ran_on()}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = load_texts(options.texts, options.documents, fewer_are_enough=True)
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (folder / "documents.jsonl").write_text("".join(lines), encoding="utf-8")
        for shape in shapes:
            if options.dry_run or shape.name.startswith(options.only):
                measure(options, folder, shape)


def measure(options: argparse.Namespace, folder: Path, shape: Shape) -> None:
    """Run all runs of a shape and its bare step, and print a table."""
    write_random_weights(str(folder / "model"), **shape.sizes)
    print(f"\n{shape.name}, batches of {shape.batch}, {options.steps} steps.", flush=True)
    rows = []
    bare = bare_rates(options, folder, shape)
    for mlm, workers in DRY_RUNS if options.dry_run else RUNS:
        if options.defaults and workers is not None:
            continue
        run = Run(shape, mlm, workers)
        measured = train(options, folder, run)
        share = measured.rate / bare[mlm]
        rows.append((
            "with MLM" if mlm else "without MLM",
            "default" if workers is None else str(workers),
            f"{measured.rate:,.0f}",
            f"{measured.trainers_rate:,.0f}",
            f"{bare[mlm]:,.0f}",
            f"{100 * share:.0f} %",
            "" if measured.busy is None else f"{100 * measured.busy:.0f} %",
            "" if measured.memory_gb is None else f"{measured.memory_gb:.1f}",
        ))  # fmt: skip
        print(*rows[-1], flush=True)
        if options.record:
            record = {
                "measured": "pretraining end to end",
                "shape": shape.name,
                "batch": shape.batch,
                "steps": options.steps,
                "mlm": mlm,
                "workers": workers,
                "documents_per_second": measured.rate,
                "documents_per_second_of_trainer": measured.trainers_rate,
                "bare_documents_per_second": bare[mlm],
                "gpu_busy": measured.busy,
                "memory_gb": measured.memory_gb,
            }
            append_record(options.record, record)
    header = (
        "", "workers", "documents/s", "by the Trainer, with the start", "of the bare step", "share", "GPU busy",
        "memory, GB",
    )  # fmt: skip
    print(f"\n{table(header, rows)}", flush=True)


def bare_rates(options: argparse.Namespace, folder: Path, shape: Shape) -> dict[bool, float]:
    """Documents per second of the bare step, with MLM (True) and without (False), measured in a process of its own."""
    record = folder / f"bare-{shape.batch}.jsonl"
    command = [sys.executable, "-m", "benchmarks.speed.gpu_step", "--defaults", "--halves", "natural"]
    command += ["--model", str(folder / "model"), "--texts", str(folder / "documents.jsonl")]
    command += ["--batches", str(shape.batch), "--max_length", str(options.max_length), "--record", str(record)]
    command += ["--dry_run"] if options.dry_run else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    rates = {}
    for line in record.read_text().splitlines():
        row = json.loads(line)
        if not row["fits"]:
            raise SystemExit(f"A step of {shape.batch} documents does not fit into memory: give smaller --batches.")
        rates[row["name"]] = row["documents_per_second"]
    return {True: rates[OURS_MLM], False: rates[OURS]}


def command_of(options: argparse.Namespace, folder: Path, run: Run) -> list[str]:
    """The command of a run."""
    batch = run.shape.batch
    command = [sys.executable, "-m", "docsplit_hf", "pretrain", "--model_name_or_path", str(folder / "model")]
    command += ["--dataset_name", str(folder / "documents.jsonl"), "--test_size", "0", "--pooling", "mean"]
    command += ["--max_length", str(options.max_length), "--max_steps", str(options.steps)]
    command += ["--logging_steps", str(options.steps // LOGS), "--per_device_train_batch_size", str(batch)]
    command += ["--learning_rate", "5e-5", "--seed", "0", "--eval_strategy", "no", "--save_strategy", "no"]
    command += ["--output_dir", str(folder / "trained"), "--overwrite_output_dir", "--bf16", "--report_to", "none"]
    if not run.mlm:
        command += ["--mlm_weight", "0", "--mlm_probability", "0"]
    if run.workers is not None:
        command += ["--dataloader_num_workers", str(run.workers)]
    if DEVICE == "cpu":
        command.append("--use_cpu")
    elif "compile_layers" in {field.name for field in dataclasses.fields(ContrastiveTrainingArguments)}:
        command += ["--compile_layers", "on"]  # as in long runs by default; these are short
    return command


def train(options: argparse.Namespace, folder: Path, run: Run) -> Measured:
    """Run the command, and time its logs."""
    command = command_of(options, folder, run)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    shutil.rmtree(folder / "trained", ignore_errors=True)
    log = folder / "training.log"
    times = []
    rate = 0.0
    with log.open("w") as errors, watched_gpu() as samples:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            for line in process.stdout:
                if line.startswith("{'loss'"):
                    times.append(time.monotonic())
                found = TRAINERS_RATE.search(line)
                if found:
                    rate = float(found[1])
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text()[-3000:]}")
    if len(times) != LOGS:
        raise SystemExit(f"{' '.join(command)} logged {len(times)} times, not {LOGS}: nothing is measured.")
    steps = options.steps - options.steps // LOGS
    seconds = times[-1] - times[0]
    busy, memory = between(samples, times[0], times[-1])
    return Measured(steps * run.shape.batch / seconds, rate, busy, memory)


class Sample(NamedTuple):
    """What nvidia-smi shows at a time."""

    time: float
    busy: float  # from 0 to 1
    memory_gb: float


@contextmanager
def watched_gpu() -> Iterator[list[Sample]]:
    """Collect samples of nvidia-smi in a thread within the context, if there is one."""
    samples: list[Sample] = []
    if shutil.which("nvidia-smi") is None:
        yield samples
        return
    command = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    command += ["-lms", str(1000 // SAMPLES_PER_SECOND)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        thread = threading.Thread(target=collect, args=(watcher.stdout, samples))
        thread.start()
        try:
            yield samples
        finally:
            watcher.terminate()
            thread.join()


def collect(lines: Iterable[str], samples: list[Sample]) -> None:
    """Add a sample for each line with two numbers."""
    for line in lines:
        try:
            busy, mebibytes = map(float, line.split(","))
        except ValueError:
            continue  # such as "[N/A]"
        samples.append(Sample(time.monotonic(), busy / 100, mebibytes * 2**20 / GIGABYTE))


def between(samples: list[Sample], start: float, end: float) -> tuple[float | None, float | None]:
    """The mean utilization between two times, and the largest memory; None without samples."""
    chosen = [sample for sample in samples if start <= sample.time <= end]
    if not chosen:
        return None, None
    return statistics.mean(sample.busy for sample in chosen), max(sample.memory_gb for sample in chosen)


if __name__ == "__main__":
    main()
