"""Curves of the loss with a residual stream in bfloat16 and in float32, beside the difference of two seeds.

    python -m benchmarks.quality.bf16_residual --texts articles.jsonl --record output/bf16_residual.jsonl
    python -m benchmarks.quality.bf16_residual --dry_run    # tiny, also on a CPU

BERT base in shape, from the same random weights, is trained by DocSplit with MLM, as `docsplit pretrain --bf16` does:
with layer norms that give float32, which is autocast's way, and with --bf16_residual, with each seed. The seed decides
the order of the documents, the halves, the masks and dropout. The losses are means over the steps of each window. The
recall@1 is that of half-document retrieval among documents that are held out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
from datasets import Dataset
from transformers import AutoTokenizer

from benchmarks.inputs import DEVICE, argument_parser, load_texts, prepare_large_checkpoint
from benchmarks.speed.gpu_record import append_record, this_card
from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    segment_documents,
)
from docsplit_hf.training.markdown import table

WINDOWS = 20  # of a run
HELD_OUT = 500  # documents
LOSSES = ("contrastive_loss", "mlm_loss")


class Curve(NamedTuple):
    """What a run logged."""

    losses: dict[str, list[float]]  # the mean of each window, by name
    recall: float
    documents_per_second: float


def main() -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=2000, help="Of each run. Default: %(default)s.")
    add("--batch", type=int, default=36, help="Documents of a step. Default: %(default)s.")
    add("--learning_rate", type=float, default=1e-4, help="Default: %(default)s.")
    add("--seeds", type=int, nargs="+", default=[0, 1], help="Default: 0 1.")
    add("--documents", type=int, default=6000, help="At most, with those held out. Default: %(default)s.")
    add("--record", type=Path, help="A JSONL file to add a line for each run to.")
    add("--dry_run", action="store_true", help="Tiny sizes, also on a CPU.")
    options = parser.parse_args()
    if options.dry_run:
        options.steps = WINDOWS
        options.batch = 4
        options.documents = HELD_OUT + 100
        options.max_length = 32
    elif DEVICE == "cpu":
        raise SystemExit("There is no GPU here: --dry_run tries the script on the CPU.")
    print(f"{this_card().describe()}, {options.steps} steps of {options.batch} documents.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare_large_checkpoint(options, folder)
        texts = load_texts(options.texts, options.documents, fewer_are_enough=True)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        splits = segment_documents(Dataset.from_dict({"text": texts}), tokenizer).train_test_split(HELD_OUT, seed=0)
        curves = {}
        for seed in options.seeds:
            for bf16_residual in (False, True):
                curve = train(options, folder, splits["train"], splits["test"], seed, bf16_residual)
                curves[seed, bf16_residual] = curve
                print(f"seed {seed}, bf16_residual={bf16_residual}: {describe(curve)}", flush=True)
                if options.record:
                    record = {"measured": "bf16 residual", "seed": seed, "bf16_residual": bf16_residual}
                    settings = {"steps": options.steps, "batch": options.batch, "max_length": options.max_length}
                    append_record(options.record, {**record, **settings, **curve._asdict()})
    print(differences(curves, options.seeds))


def train(
    options: argparse.Namespace, folder: str, documents: Dataset, held_out: Dataset, seed: int, bf16_residual: bool
) -> Curve:
    """Train one run, and evaluate it."""
    with tempfile.TemporaryDirectory() as output:
        arguments = ContrastiveTrainingArguments(
            output,
            seed=seed,
            bf16=True,
            use_cpu=DEVICE == "cpu",
            bf16_residual=bf16_residual,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            learning_rate=options.learning_rate,
            warmup_steps=options.steps // 10,
            logging_steps=options.steps // WINDOWS,
            save_strategy="no",
            eval_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        model = AutoModelForDocSplit.from_pretrained(folder, pooling="mean")
        collator = DataCollatorForDocSplit(AutoTokenizer.from_pretrained(folder), options.max_length, seed=seed)
        trainer = ContrastiveTrainer(model, arguments, documents, held_out, collator)
        result = trainer.train()
        recall = trainer.evaluate()["eval_recall@1"]
    logs = [row for row in trainer.state.log_history if "loss" in row]
    losses = {name: [row[name] for row in logs] for name in LOSSES}
    if DEVICE == "cuda":
        del trainer, model
        torch.cuda.empty_cache()
    return Curve(losses, recall, result.metrics["train_samples_per_second"])


def describe(curve: Curve) -> str:
    """The last losses, recall and speed."""
    last = ", ".join(f"{name} {values[-1]:.4f}" for name, values in curve.losses.items())
    return f"{last}, recall@1 {100 * curve.recall:.1f}, {curve.documents_per_second:.0f} documents/s"


def differences(curves: dict[tuple[int, bool], Curve], seeds: list[int]) -> str:
    """Mean absolute differences of the curves: of the residual with equal seeds, and of seeds with equal residuals."""
    rows = []
    for name in LOSSES:
        of_residual = [apart(curves[seed, False], curves[seed, True], name) for seed in seeds]
        of_seeds = []
        for bf16_residual in (False, True):
            of_seeds += [
                apart(curves[seeds[0], bf16_residual], curves[seed, bf16_residual], name) for seed in seeds[1:]
            ]
        rows.append((name, shown(of_residual), shown(of_seeds)))
    return table(("mean absolute difference of windows", "of the residual", "of the seeds"), rows)


def apart(one: Curve, other: Curve, name: str) -> float:
    """The mean absolute difference of two curves."""
    pairs = zip(one.losses[name], other.losses[name], strict=True)
    return sum(abs(first - second) for first, second in pairs) / WINDOWS


def shown(values: list[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


if __name__ == "__main__":
    main()
