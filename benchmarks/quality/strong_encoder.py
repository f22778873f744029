"""DocSplit training of a strong encoder on a task's own texts, with recipes against forgetting.

    python -m benchmarks.quality.strong_encoder \\
        --tasks 20News=data/20news BBCNews=data/bbc_news --output_dir output/strong

A recipe is trained and measured once; run the same command again to continue a stopped run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from torch.nn import functional
from transformers import AutoTokenizer, set_seed

from benchmarks.inputs import default_model
from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    DocumentEncoder,
    segment_documents,
)
from docsplit_hf.encoding.portable.run_encoder import pool
from docsplit_hf.evaluation.systems import EncoderWithOptions
from docsplit_hf.pretraining.info_nce import comparable, info_nce
from experiments.evaluation.experiment import EvaluationSettings
from experiments.evaluation.results import ResultStore, describe_command
from experiments.evaluation.runner import run_protocols
from experiments.evaluation.systems import EncoderSystem
from experiments.tasks.load_paper_task import load_paper_task

TRAINED_ON = 2000  # texts
VIEW_TOKENS = 64
READ_TOKENS = 160
MASKED_SCORE = -1e4  # -inf would give NaN gradients for a row without other scores


class GuidedTrainer(ContrastiveTrainer):
    """DocSplit training with guidance by the frozen initial encoder."""

    frozen = None
    distillation = 0.0  # weight of 1 - cosine to the initial encoder's embedding of the same view
    drops_alike = False  # leave out negatives that the initial encoder finds closer than the positive (GISTEmbed)

    def contrast(self, embeddings, inputs):
        with torch.no_grad():
            mask = inputs["attention_mask"]
            states = self.frozen(input_ids=inputs["input_ids"], attention_mask=mask).last_hidden_state
            known = comparable(pool(states, mask, "mean"), "cosine")
        anchors, positives = embeddings.chunk(2)
        ids = inputs["document_ids"]
        statistics = info_nce(anchors, positives, self.args.temperature, 0, ids, ids)
        if self.drops_alike:
            known_anchors, known_positives = known.chunk(2)
            guide = known_anchors @ known_positives.T
            alike = (guide > guide.diagonal()[:, None]) | (ids[:, None] == ids[None])
            alike.fill_diagonal_(False)
            scores = comparable(anchors, "cosine") @ comparable(positives, "cosine").T / self.args.temperature
            scores = scores.masked_fill(alike, MASKED_SCORE)
            loss = functional.cross_entropy(scores, torch.arange(len(ids)), reduction="none")
            statistics = statistics._replace(loss=loss, negatives=(~alike).sum(1).float() - 1)
        if self.distillation:
            first, second = (1 - (comparable(embeddings, "cosine") * known).sum(1)).chunk(2)
            statistics = statistics._replace(loss=statistics.loss + self.distillation * (first + second) / 2)
        return statistics


RECIPES = {  # attributes of the trainer, the learning rate, and whether a LoRA adapter is trained
    "docsplit": ({}, 5e-5, False),
    "docsplit + distillation": ({"distillation": 10.0}, 5e-5, False),
    "docsplit + no alike negatives": ({"drops_alike": True}, 5e-5, False),
    "docsplit + LoRA": ({}, 5e-4, True),
}


def train(recipe: str, texts: list[str], start: str, folder: Path, options: argparse.Namespace) -> None:
    """Train a recipe on texts without labels, and save the encoder."""
    attributes, learning_rate, with_lora = RECIPES[recipe]
    set_seed(options.seed)
    tokenizer = AutoTokenizer.from_pretrained(start)
    documents = segment_documents(Dataset.from_dict({"text": texts}), tokenizer)
    model = AutoModelForDocSplit.from_pretrained(start, pooling="mean", mlm_head=False)
    if with_lora:
        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    arguments = ContrastiveTrainingArguments(
        str(folder),
        max_steps=options.steps,
        warmup_steps=options.steps // 10,
        per_device_train_batch_size=32,
        learning_rate=learning_rate,
        mlm_weight=0,
        use_cpu=True,
        bf16=True,
        save_strategy="no",
        eval_strategy="no",
        load_best_model_at_end=False,
        logging_steps=10,
        report_to="none",
        seed=options.seed,
    )
    collator = DataCollatorForDocSplit(tokenizer, max_length=VIEW_TOKENS, mlm_probability=0)
    trainer = GuidedTrainer(model, arguments, documents, data_collator=collator, processing_class=tokenizer)
    trainer.frozen = DocumentEncoder.from_pretrained(start).model.requires_grad_(False)
    for name, value in attributes.items():
        setattr(trainer, name, value)
    trainer.train()
    trainer.save_model()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", required=True, help="NAME=FOLDER each, as in docsplit evaluate.")
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=list(RECIPES), help="Default: all.")
    parser.add_argument("--start", help="Any encoder with mean pooling. Default: the installed all-MiniLM-L6-v2.")
    parser.add_argument("--steps", type=int, default=60, help="Of 32 documents. Default: %(default)s.")
    parser.add_argument("--seed", type=int, default=0, help="Of the training. Default: %(default)s.")
    parser.add_argument("--output_dir", type=Path, default="output/strong_encoder", help="Default: %(default)s.")
    options = parser.parse_args()
    start = options.start or default_model()
    store = ResultStore(options.output_dir, describe_command(sys.argv))
    settings = EvaluationSettings(shots=5, max_length=READ_TOKENS)
    for named in options.tasks:
        name, _, folder = named.partition("=")
        texts = load_paper_task(name, folder, max_train_examples=TRAINED_ON).train_texts
        task = load_paper_task(name, folder, max_train_examples=400, max_test_examples=600)
        for recipe in ("start", *options.recipes):
            model = start
            if recipe != "start":
                model = options.output_dir / "models" / name / f"{recipe} {options.steps} steps, seed {options.seed}"
                began = time.process_time()
                if not any(model.glob("*.safetensors")):
                    train(recipe, texts, start, model, options)
                    print(f"{name}, {recipe}: {time.process_time() - began:.0f} s of the processor", flush=True)
            encoder = DocumentEncoder.from_pretrained(str(model), max_length=READ_TOKENS)
            shown = recipe if recipe == "start" else model.name
            system = EncoderSystem(shown, EncoderWithOptions(encoder, bf16=True), options.output_dir / "embeddings")
            records, _ = run_protocols({str(model): system}, [task], ["few_shot"], settings, store)
            print(name, recipe, sum(record["metrics"]["macro_f1"] for record in records) / len(records), flush=True)


if __name__ == "__main__":
    main()
