"""All measurements on a GPU, the most valuable first: an hour is enough for all, and minutes for the first ones.

    python -m benchmarks.speed.gpu --dry_run     # each command on the CPU with a tiny model, in a few minutes
    python -m benchmarks.speed.gpu               # on a GPU; needs no network
    python -m benchmarks.speed.gpu --only train  # measurements with names that begin with this
    python -m benchmarks.speed.gpu --card 24     # with batches for a card of 24 GB; by default those for this card

The output of each command goes into --output, in a log with the command's own number, beside gpu.jsonl with its exit
code and seconds, and figures.jsonl with what the commands record. A command that takes three times the expected minutes
is stopped, and the next one runs. Commands that need packages that are not installed are left out. The minutes are
estimates from the first runs, on a card of 141 GB.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.inputs import TINY, write_random_weights
from benchmarks.speed.gpu_record import this_card
from benchmarks.speed.side_by_side import ran_on
from docsplit_hf.training.markdown import table

ROOT = Path(__file__).parents[2]
TIMES = 3  # a command is stopped after this multiple of the expected minutes
COMMANDS_AT_ONCE = 2  # in a dry run, with one thread each


class Sizes(NamedTuple):
    """Documents of a step that fit into the memory of a card."""

    bare: str  # halves of 256 tokens, without MLM
    end_to_end: str  # of BERT base, and of six layers of 384
    train: int  # halves of up to 256 tokens, with MLM
    ratios: int  # the same, with rivals
    longer: int  # halves of up to 512 tokens, with rivals
    growth: int


CARDS = {
    24: Sizes(bare="32 16", end_to_end="32 64", train=32, ratios=16, longer=8, growth=32),
    48: Sizes(bare="64 32", end_to_end="64 128", train=64, ratios=32, longer=16, growth=64),
    80: Sizes(bare="128 64", end_to_end="128 256", train=128, ratios=64, longer=32, growth=128),
    141: Sizes(bare="256 128", end_to_end="128 256", train=128, ratios=64, longer=64, growth=256),
}


class Command(NamedTuple):
    """A command, its minutes on a GPU, and options of a dry run.

    MODEL: the folder of the weights; OUT: a new folder; RECORD: the file of the figures.
    """

    name: str
    minutes: float
    arguments: str
    dry: str
    needs: tuple[str, ...] = ()  # packages that docsplit_hf or the benchmarks can do without


def commands_for(sizes: Sizes) -> list[Command]:
    """All commands with the sizes of a card."""
    pretrain = (
        "examples/run_pretrain.py --model_name_or_path MODEL --dataset_name documentation --max_length 256 --seed 0 "
        f"--per_device_train_batch_size {sizes.train} --max_steps 100 --logging_steps 20 --learning_rate 5e-5 "
        "--output_dir OUT"
    )
    dry_pretrain = "--use_cpu --per_device_train_batch_size 4 --max_steps 2 --test_size 8 --max_length 32"
    sharded = "-m accelerate.commands.launch --config_file examples/accelerate_configs/fsdp.yaml --num_processes 1"
    step = "-m benchmarks.speed.training_step --model MODEL --record RECORD"
    dry_step = "--batch 4 --steps 1 --rounds 1 --max_length 32"
    inference = "-m benchmarks.speed.inference --model MODEL --record RECORD"
    dry_inference = "--documents 40 --rounds 1 --max_length 32"
    memory = "-m benchmarks.speed.memory --model MODEL --precision bf16 --rounds 1 --batches 64 128 256 512"
    dry_memory = "--batches 4 --chunked_batches 8 --forward_chunk_size 4 --documents 16 --max_length 32"
    growth = f"-m benchmarks.speed.growth --model MODEL --precision bf16 --largest_batch {sizes.growth} --pictures OUT"
    dry_growth = "--longest 256 --tokens 512 --largest_batch 8 --documents 10 --rounds 1 --max_length 32"
    classify = (
        "examples/run_classification.py --model_name_or_path MODEL --dataset_name documentation "
        "--max_steps 40 --max_length 256 --bf16 --output_dir OUT"
    )
    dry_classify = "--use_cpu --max_steps 2 --max_length 32"
    bare = f"-m benchmarks.speed.gpu_step --batches {sizes.bare} --record RECORD"
    end_to_end = f"-m benchmarks.speed.gpu_end_to_end --batches {sizes.end_to_end} --record RECORD"
    long = "-m benchmarks.speed.gpu_long --record RECORD"
    longer = f"{step} --batch {sizes.longer} --steps 5 --max_length 512 --precision bf16"
    collating = "-m benchmarks.speed.collating --model MODEL --record RECORD"
    mixed = f"{inference} --documents 8000 --mixed_lengths"
    chunks = f"{pretrain} --bf16 --forward_chunk_size 32"
    return [
        Command("bare step", 6, bare, "--dry_run --halves natural"),
        Command("end to end", 8, end_to_end, "--dry_run"),
        Command("inference of mixed lengths", 2, mixed, dry_inference),
        Command("long documents", 4, long, "--dry_run"),
        Command("collating", 1, collating, "--documents 8 --batch 4 --max_length 32 --rounds 1"),
        Command("train in bfloat16, packed", 1, f"{pretrain} --bf16 --packing on", dry_pretrain),
        Command("train sharded, FSDP 2", 2, f"{sharded} {pretrain} --bf16", f"{dry_pretrain} --bf16 False"),
        Command("step, ratios and MFU", 4, f"{step} --batch {sizes.ratios} --steps 5", dry_step),
        Command("step of 512 tokens", 3, longer, f"{dry_step} --without_mlm"),
        Command("inference", 2, f"{inference} --documents 5000", dry_inference),
        Command("inference of classifiers", 2, f"{inference} --documents 5000 --classifier", dry_inference, ("faiss",)),
        Command("train in bfloat16, padded", 1, f"{pretrain} --bf16 --packing off", dry_pretrain),
        Command("train in float32", 3, pretrain, dry_pretrain),
        Command("train in chunks", 2, chunks, f"{dry_pretrain} --forward_chunk_size 2"),
        Command("train compiled", 2, f"{pretrain} --bf16 --torch_compile", f"{dry_pretrain} --torch_compile False"),
        Command("memory", 4, memory, dry_memory),
        Command("growth", 3, growth, dry_growth),
        Command("classify", 1, classify, dry_classify, ("evaluate", "faiss")),
        Command("long documents on 48 GB", 4, f"{long} --memory_gb 48", "--dry_run --shapes modernbert-base"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry_run", action="store_true", help="Run all on the CPU with a tiny model.")
    parser.add_argument("--only", default="", help="The first letters of the names of what is run. Default: all.")
    parser.add_argument("--card", type=int, choices=CARDS, help="Its gigabytes. Default: as large as this card.")
    parser.add_argument("--output", type=Path, default=Path("output/gpu"), help="Default: %(default)s.")
    options = parser.parse_args()
    card = options.card or closest_card(this_card().memory_gb)
    chosen = {}
    for number, command in enumerate(commands_for(CARDS[card])):
        if command.name.startswith(options.only):
            missing = [package for package in command.needs if importlib.util.find_spec(package) is None]
            if missing:
                print(f"Left out: {command.name}: {', '.join(missing)} is not installed.")
            else:
                chosen[number] = command
    print(table(("command", "minutes"), [(command.name, f"{command.minutes:g}") for command in chosen.values()]))
    minutes = sum(command.minutes for command in chosen.values())
    print(f"{minutes:g} minutes of a GPU. Batches are those for a card of {card} GB.", flush=True)
    if not options.dry_run and not torch.cuda.is_available():
        raise SystemExit("There is no GPU here: --dry_run tries the commands on the CPU.")
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        write_random_weights(f"{folder}/bert", **(TINY if options.dry_run else {}))
        with ThreadPoolExecutor(COMMANDS_AT_ONCE if options.dry_run else 1) as pool:
            started = [
                pool.submit(run_and_record, options, folder, number, command) for number, command in chosen.items()
            ]
            failed = sum(future.result() != 0 for future in started)
    if failed:
        raise SystemExit(f"{failed} of {len(chosen)} failed: see the end of their logs in {options.output}.")


def closest_card(memory_gb: float) -> int:
    """The largest card with no more memory than this one, give or take what a driver keeps."""
    fitting = [card for card in CARDS if card <= 1.1 * memory_gb]
    return max(fitting, default=min(CARDS))


def run_and_record(options: argparse.Namespace, folder: str, number: int, command: Command) -> int:
    """Run a command, add a line to gpu.jsonl, and return its exit code."""
    text = f"{command.arguments} {command.dry if options.dry_run else ''}"
    text = text.replace("MODEL", f"{folder}/bert").replace("OUT", f"{folder}/{number}")
    text = text.replace("RECORD", str(options.output.resolve() / "figures.jsonl"))
    log = options.output / f"{number:02d}.log"
    code, seconds = run(text, command.minutes * 60 * TIMES, log, options.dry_run)
    record = {"name": command.name, "command": f"python {text}", "code": code, "seconds": round(seconds)}
    record |= {"dry_run": options.dry_run, "expected_minutes": command.minutes, "ran_on": ran_on()}
    with (options.output / "gpu.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(f"{command.name}: {'failed' if code else 'ran'}, {seconds:.0f} s", flush=True)
    return code


def run(arguments: str, limit: float, log: Path, on_the_cpu: bool) -> tuple[int, float]:
    """Run a command; return its exit code, 124 after the time limit, and its seconds."""
    environment = dict(os.environ)
    if on_the_cpu:
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    with log.open("w") as file:
        command = [sys.executable, *arguments.split()]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, timeout=limit, stdout=file, stderr=subprocess.STDOUT, check=False
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = 124
    return code, time.monotonic() - start


if __name__ == "__main__":
    main()
