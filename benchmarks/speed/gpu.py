"""All measurements on a GPU, the most valuable first: half an hour of one is enough.

    python -m benchmarks.speed.gpu --dry_run     # each command on the CPU with a tiny model, in a few minutes
    python -m benchmarks.speed.gpu               # on a GPU; needs no network
    python -m benchmarks.speed.gpu --only train  # measurements with names that begin with this

The output of each command goes into --output, beside gpu.jsonl with its exit code and seconds. A command that takes
three times the expected minutes is stopped, and the next one runs. The minutes are estimates: nothing of this has run
on a GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import AutoModelForMaskedLM

from benchmarks.inputs import SHAPES, random_config
from benchmarks.speed.side_by_side import ran_on
from docsplit_hf import load_package_documentation
from docsplit_hf.encoders.small_bert import cached_small_bert_tokenizer
from docsplit_hf.training.markdown import table

ROOT = Path(__file__).parents[2]
TINY = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
TIMES = 3  # a command is stopped after this multiple of the expected minutes


class Command(NamedTuple):
    """A command, its minutes on a GPU, and options of a dry run. MODEL: the folder of the weights; OUT: a new one."""

    name: str
    minutes: float
    arguments: str
    dry: str


PRETRAIN = (
    "examples/run_pretrain.py --model_name_or_path MODEL --dataset_name documentation --max_length 256 --seed 0 "
    "--per_device_train_batch_size 128 --max_steps 100 --logging_steps 20 --learning_rate 5e-5 --output_dir OUT"
)
DRY_PRETRAIN = "--use_cpu --per_device_train_batch_size 4 --max_steps 2 --test_size 8 --max_length 32"
SHARDED = "-m accelerate.commands.launch --config_file examples/accelerate_configs/fsdp.yaml --num_processes 1"
STEP = "-m benchmarks.speed.training_step --model MODEL"
DRY_STEP = "--batch 4 --steps 1 --rounds 1 --max_length 32"
INFERENCE = "-m benchmarks.speed.inference --model MODEL"
DRY_INFERENCE = "--documents 40 --rounds 1 --max_length 32"
MEMORY = "-m benchmarks.speed.memory --model MODEL --precision bf16 --rounds 1 --batches 64 128 256 512"
DRY_MEMORY = "--batches 4 --chunked_batches 8 --forward_chunk_size 4 --documents 16 --max_length 32"
GROWTH = "-m benchmarks.speed.growth --model MODEL --precision bf16 --pictures OUT"
DRY_GROWTH = "--longest 256 --tokens 512 --largest_batch 8 --documents 10 --rounds 1 --max_length 32"
CLASSIFY = (
    "examples/run_classification.py --model_name_or_path MODEL --dataset_name documentation --max_train_examples 1500 "
    "--max_length 256 --bf16 --output_dir OUT"
)
DRY_CLASSIFY = "--use_cpu --max_train_examples 40 --max_steps 2 --max_length 32"
COMMANDS = [
    Command("train in bfloat16, packed", 1, f"{PRETRAIN} --bf16 --packing on", DRY_PRETRAIN),
    Command("train sharded, FSDP 2", 2, f"{SHARDED} {PRETRAIN} --bf16", f"{DRY_PRETRAIN} --bf16 False"),
    Command("step, ratios and MFU", 4, f"{STEP} --batch 64 --steps 5", DRY_STEP),
    Command("step of 512 tokens", 3, f"{STEP} --batch 128 --steps 5 --max_length 512 --precision bf16", DRY_STEP),
    Command("inference", 2, f"{INFERENCE} --documents 5000", DRY_INFERENCE),
    Command("inference of classifiers", 2, f"{INFERENCE} --documents 5000 --classifier", DRY_INFERENCE),
    Command("train in bfloat16, padded", 1, f"{PRETRAIN} --bf16 --packing off", DRY_PRETRAIN),
    Command("train in float32", 3, PRETRAIN, DRY_PRETRAIN),
    Command(
        "train in chunks", 2, f"{PRETRAIN} --bf16 --forward_chunk_size 32", f"{DRY_PRETRAIN} --forward_chunk_size 2"
    ),
    Command("train compiled", 2, f"{PRETRAIN} --bf16 --torch_compile", DRY_PRETRAIN),
    Command("memory", 4, MEMORY, DRY_MEMORY),
    Command("growth", 3, GROWTH, DRY_GROWTH),
    Command("classify", 1, CLASSIFY, DRY_CLASSIFY),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry_run", action="store_true", help="Run all on the CPU with a tiny model.")
    parser.add_argument("--only", default="", help="The first letters of the names of what is run. Default: all.")
    parser.add_argument("--output", type=Path, default=Path("output/gpu"), help="Default: %(default)s.")
    options = parser.parse_args()
    chosen = [command for command in COMMANDS if command.name.startswith(options.only)]
    print(table(("command", "minutes"), [(command.name, f"{command.minutes:g}") for command in chosen]))
    print(f"{sum(command.minutes for command in chosen):g} minutes of a GPU.", flush=True)
    if not options.dry_run and not torch.cuda.is_available():
        raise SystemExit("There is no GPU here: --dry_run tries the commands on the CPU.")
    options.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        make_checkpoint(f"{folder}/bert", TINY if options.dry_run else {})
        for number, command in enumerate(chosen):
            text = f"{command.arguments} {command.dry if options.dry_run else ''}"
            text = text.replace("MODEL", f"{folder}/bert").replace("OUT", f"{folder}/{number}")
            code, seconds = run(
                text, command.minutes * 60 * TIMES, options.output / f"{number:02d}.log", options.dry_run
            )
            record = {"name": command.name, "command": f"python {text}", "code": code, "seconds": round(seconds)}
            record |= {"dry_run": options.dry_run, "expected_minutes": command.minutes, "ran_on": ran_on()}
            with (options.output / "gpu.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")
            failed += code != 0
            print(f"{command.name}: {'failed' if code else 'ran'}, {seconds:.0f} s", flush=True)
    if failed:
        raise SystemExit(f"{failed} of {len(chosen)} failed: see the end of their logs in {options.output}.")


def make_checkpoint(folder: str, sizes: dict[str, int]) -> None:
    """Random weights in the shape of BERT base, or of other sizes."""
    tokenizer = cached_small_bert_tokenizer(load_package_documentation()["train"]["text"])
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(random_config(SHAPES["bert-base"], tokenizer, **sizes))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def run(arguments: str, limit: float, log: Path, on_the_cpu: bool) -> tuple[int, float]:
    """Run a command; return its exit code, 124 after the time limit, and its seconds."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""} if on_the_cpu else None
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
