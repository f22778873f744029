"""Training on long documents with the defaults: the peak memory and the documents per second of a GPU.

    python -m benchmarks.speed.gpu_long
    python -m benchmarks.speed.gpu_long --memory_gb 48                            # as on a card of 48 GB
    python -m benchmarks.speed.gpu_long --memory_gb 48 --activation_checkpointing   # in place of the defaults
    python -m benchmarks.speed.gpu_long --dry_run                                 # tiny, also on a CPU

The setting is that of DocSplit_long: Longformer base in shape, 12 documents a step, halves of 4,096 tokens, with MLM;
and the same with ModernBERT base. Weights are random, the precision is bfloat16, and everything else is the default of
ContrastiveTrainer. --memory_gb limits what torch may reserve; a driver takes about half a gigabyte of a real card. The
time begins after two steps.
"""

import argparse
import gc
import logging
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from benchmarks.inputs import DEVICE, TINY, write_random_weights
from benchmarks.speed.gpu_record import GIGABYTE, append_record, this_card
from benchmarks.speed.gpu_step import join_documents
from benchmarks.speed.side_by_side import is_out_of_memory, now, ran_on
from benchmarks.speed.timed_training import load_segmented, make_collator
from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments
from docsplit_hf.training.markdown import table

SHAPES = ("longformer-base", "modernbert-base")
FIRST_STEPS = 2  # before the time begins


class Measured(NamedTuple):
    """What was measured of a shape; rates and memory are None if a step did not fit."""

    chunk: int | None  # documents per forward pass, in the end; None: the whole batch
    rate: float | None
    allocated_gb: float | None
    reserved_gb: float | None


class Clock(TrainerCallback):
    """The seconds from the end of the first steps to the end of the last."""

    def __init__(self) -> None:
        self.start = 0.0
        self.seconds = 0.0

    def on_step_end(self, args, state, control, **kwargs) -> None:
        if state.global_step == FIRST_STEPS:
            self.start = now()
        if state.global_step == state.max_steps:
            self.seconds = now() - self.start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--texts", help="A file with a column 'text', or a folder. Default: documentation of installed packages.")
    add("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="Default: both.")
    add("--batch", type=int, default=12, help="Documents of a step. Default: %(default)s.")
    add("--max_length", type=int, default=4096, help="Tokens of one half. Default: %(default)s.")
    add("--steps", type=int, default=6, help="Of each run. Default: %(default)s.")
    add("--memory_gb", type=float, help="Gigabytes that torch may take. Default: all.")
    add("--forward_chunk_size", default="auto", help="Documents of a chunk. Default: %(default)s, as in any run.")
    add("--activation_checkpointing", action="store_true", help="Compute the layers again in the backward pass.")
    add("--record", type=Path, help="A JSONL file to add a line for each shape to.")
    add("--dry_run", action="store_true", help="Tiny sizes, also on a CPU.")
    options = parser.parse_args()
    if options.dry_run:
        options.batch = 2
        options.max_length = 64
        options.steps = FIRST_STEPS + 1
    elif DEVICE == "cpu":
        raise SystemExit("There is no GPU here: --dry_run tries the script on the CPU.")
    if options.steps <= FIRST_STEPS:
        raise SystemExit(f"--steps has to be more than {FIRST_STEPS}: nothing is measured.")
    if options.memory_gb and DEVICE == "cuda":
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory_gb / this_card().memory_gb))
    limit = f"limited to {options.memory_gb:g} GB" if options.memory_gb else "without a limit"
    print(f"{this_card().describe()}, {limit}. {ran_on()}")
    print(f"{options.batch} documents a step, halves of {options.max_length:,} tokens, with MLM.", flush=True)
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("docsplit_hf").setLevel(logging.INFO)  # which chunks were chosen
    rows = []
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as folder:
            write_random_weights(folder, shape, **(TINY if options.dry_run else {}))
            measured = measure(options, folder)
        rows.append(cells(shape, measured))
        print(*rows[-1], flush=True)
        if options.record:
            record = {
                "measured": "training on long documents",
                "shape": shape,
                "batch": options.batch,
                "max_length": options.max_length,
                "memory_limit_gb": options.memory_gb,
                "activation_checkpointing": options.activation_checkpointing,
                "documents_per_forward": measured.chunk or options.batch,
                "documents_per_second": measured.rate,
                "peak_allocated_gb": measured.allocated_gb,
                "peak_reserved_gb": measured.reserved_gb,
            }
            append_record(options.record, record)
    header = ("", "documents per forward pass", "documents/s", "peak GB", "reserved by torch, GB")
    print(f"\n{table(header, rows)}")


def cells(shape: str, measured: Measured) -> tuple[str, ...]:
    chunk = "all" if measured.chunk is None else str(measured.chunk)
    if measured.rate is None:
        return (shape, chunk, "does not fit", "", "")
    return (
        shape,
        chunk,
        f"{measured.rate:,.2f}",
        f"{measured.allocated_gb:.1f}",
        f"{measured.reserved_gb:.1f}",
    )


def measure(options: argparse.Namespace, folder: str) -> Measured:
    """Train for the steps. A step that does not fit ends the run."""
    count = options.batch * options.steps
    documents = join_documents(load_segmented(options, folder, count), 4 * options.max_length)
    if DEVICE == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as output:
        trainer = make_trainer(options, folder, documents, output)
        clock = Clock()
        trainer.add_callback(clock)
        fits = True
        try:
            trainer.train()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            print(error, flush=True)
            fits = False
        chunk = trainer.chunk_size
    if not fits:
        return Measured(chunk, None, None, None)
    rate = options.batch * (options.steps - FIRST_STEPS) / clock.seconds
    if DEVICE == "cpu":
        return Measured(chunk, rate, 0.0, 0.0)
    allocated = torch.cuda.max_memory_allocated() / GIGABYTE
    return Measured(chunk, rate, allocated, torch.cuda.max_memory_reserved() / GIGABYTE)


def make_trainer(options: argparse.Namespace, folder: str, documents: Dataset, output: str) -> ContrastiveTrainer:
    arguments = ContrastiveTrainingArguments(
        output,
        max_steps=options.steps,
        per_device_train_batch_size=options.batch,
        activation_checkpointing=options.activation_checkpointing,
        bf16=True,
        use_cpu=DEVICE == "cpu",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        forward_chunk_size=options.forward_chunk_size,
    )
    trainer = ContrastiveTrainer(
        model=AutoModelForDocSplit.from_pretrained(folder, pooling="mean", mlm_head=True),
        args=arguments,
        train_dataset=documents,
        data_collator=make_collator(folder, options.max_length, mlm=True),
    )
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    return trainer


if __name__ == "__main__":
    main()
