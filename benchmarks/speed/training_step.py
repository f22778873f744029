"""Documents per second of a training step, against sentence-transformers and a step written with plain transformers.

    python -m benchmarks.speed.training_step                                   # all-MiniLM-L6-v2, needs no download
    python -m benchmarks.speed.training_step --random_weights modernbert-base  # any shape
    python -m benchmarks.speed.training_step --texts my.jsonl.gz --precision bf16

Four runs over the same pairs of halves in the same batches, with the same weights, mean pooling, AdamW and clipping:

- ContrastiveTrainer without MLM, and SentenceTransformerTrainer with MultipleNegativesRankingLoss (scale 20, which is
  1 / 0.05). The latter gets the halves as texts, and tokenizes them in each step;
- ContrastiveTrainer with MLM, and the same in plain transformers, in SimCSE's way: one forward pass of the padded
  halves, and one of the padded masked copy with a head that predicts all tokens.

They take turns. The time is that of --steps steps with the making of their batches, without splitting into sentences,
loading and setting up. The ratios are medians of the rounds' ratios, with the least and the greatest.

Dropout is the model's own. On a CPU, ContrastiveTrainer drops keys of the attention instead of single weights, which
costs nothing; --no_dropout removes all dropout from all runs.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import DataLoader, SequentialSampler
from transformers import AutoModelForMaskedLM, PreTrainedModel

from benchmarks.inputs import DEVICE, argument_parser, describe_model, dropout, prepare_checkpoint, sentence_transformer
from benchmarks.speed.side_by_side import comparison, forward_flops, head_flops, now, ran_on, take_turns, write_record
from benchmarks.speed.timed_training import common_arguments, load_segmented, make_collator, timed_ours, train

Batch = dict[str, torch.Tensor]

OURS = "docsplit_hf"
OURS_MLM = "docsplit_hf with MLM"
THEIRS = "sentence-transformers"
PLAIN = "plain transformers with MLM"
PAIRS = ((OURS, THEIRS), (OURS_MLM, PLAIN))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--batch", type=int, default=36, help="Documents of a step. Default: %(default)s.")
    parser.add_argument("--steps", type=int, default=3, help="Steps of a round. Default: %(default)s.")
    parser.add_argument("--precision", choices=("bf16", "fp32", "both"), default="both", help="Default: %(default)s.")
    parser.add_argument("--without_mlm", action="store_true", help="Leave out the two runs with MLM.")
    parser.add_argument("--no_dropout", action="store_true", help="Set all rates of dropout to 0, for all runs.")
    parser.add_argument("--record", type=Path, help="A JSONL file to add the seconds of every round to.")
    options = parser.parse_args()
    precisions = ("fp32", "bf16") if options.precision == "both" else (options.precision,)
    competitors: dict[str, Callable[[], float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        config = prepare_checkpoint(options, folder, options.no_dropout)
        documents = load_segmented(options, folder, options.batch * options.steps)
        for precision in precisions:
            competitors |= competitors_in(precision, options, folder, documents)
        batches = list(padded_batches(options, folder, documents))
        print(f"{describe_model(options, config)}. {describe_batches(batches, options)}")
        print(f"Dropout: {', '.join(f'{name} {rate:g}' for name, rate in dropout(config).items())}. {ran_on()}\n")
        seconds = take_turns(options.rounds, competitors)
        flops = step_flops(folder, batches) if "bf16" in precisions else {}
    chosen = PAIRS[:1] if options.without_mlm else PAIRS
    pairs = [(f"{ours}, {p}", f"{theirs}, {p}") for p in precisions for ours, theirs in chosen]
    if options.record:
        write_record(options.record, seconds, len(documents), pairs, measured="training", max_length=options.max_length)
    print(comparison(seconds, len(documents), pairs, flops))


def competitors_in(
    precision: str, options: argparse.Namespace, folder: str, documents: Dataset
) -> dict[str, Callable[[], float]]:
    bf16 = precision == "bf16"
    ours = partial(timed_ours, folder, documents, options.batch, options.max_length, bf16=bf16)
    competitors = {
        f"{OURS}, {precision}": ours(mlm=False),
        f"{THEIRS}, {precision}": timed_sentence_transformers(options, folder, documents, bf16),
    }
    if not options.without_mlm:
        competitors[f"{OURS_MLM}, {precision}"] = ours(mlm=True)
        competitors[f"{PLAIN}, {precision}"] = timed_plain(options, folder, documents, bf16)
    return competitors


def timed_sentence_transformers(
    options: argparse.Namespace, folder: str, documents: Dataset, bf16: bool
) -> Callable[[], float]:
    pairs = pairs_of_texts(options, folder, documents)

    def run() -> float:
        model = sentence_transformer(folder, options.max_length)
        with tempfile.TemporaryDirectory() as output:
            arguments = SentenceTransformerTrainingArguments(
                output, batch_sampler=in_order, **common_arguments(options.batch, bf16)
            )
            loss = MultipleNegativesRankingLoss(model, scale=20.0)
            return train(SentenceTransformerTrainer(model, arguments, pairs, loss=loss))

    return run


def in_order(dataset: Dataset, **arguments: Any) -> DefaultBatchSampler:
    return DefaultBatchSampler(SequentialSampler(dataset), **arguments)


def pairs_of_texts(options: argparse.Namespace, folder: str, documents: Dataset) -> Dataset:
    """The collator's halves as texts."""
    collator = make_collator(folder, options.max_length, mlm=False)
    rows = collator(list(documents))["input_ids"]
    texts = collator.tokenizer.batch_decode(rows, skip_special_tokens=True)
    return Dataset.from_dict({"anchor": texts[: len(documents)], "positive": texts[len(documents) :]})


def timed_plain(options: argparse.Namespace, folder: str, documents: Dataset, bf16: bool) -> Callable[[], float]:
    def run() -> float:
        model = AutoModelForMaskedLM.from_pretrained(folder).to(DEVICE).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
        start = now()
        for batch in padded_batches(options, folder, documents):
            batch = {name: tensor.to(DEVICE) for name, tensor in batch.items()}
            with torch.autocast(DEVICE, torch.bfloat16, enabled=bf16):
                loss = contrastive_loss(model, batch) + 0.1 * mlm_loss(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return now() - start

    return run


def contrastive_loss(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    mask = batch["attention_mask"]
    states = model.base_model(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
    embeddings = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    anchors, positives = normalize(embeddings.float()).chunk(2)
    return cross_entropy(anchors @ positives.T / 0.05, torch.arange(len(anchors), device=anchors.device))


def mlm_loss(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    return model(
        input_ids=batch["mlm_input_ids"], attention_mask=batch["attention_mask"], labels=batch["mlm_labels"]
    ).loss


def padded_batches(options: argparse.Namespace, folder: str, documents: Dataset) -> Iterator[Batch]:
    collator = make_collator(folder, options.max_length, mlm=True)
    return iter(DataLoader(documents, options.batch, collate_fn=collator))


def step_flops(folder: str, batches: list[Batch]) -> dict[str, float]:
    """Operations of each run in bfloat16: three forward passes of each view, and of the head on masked tokens only."""
    model = AutoModelForMaskedLM.from_pretrained(folder)
    lengths = [length for batch in batches for length in batch["attention_mask"].sum(1).tolist()]
    masked = sum(int((batch["mlm_labels"] >= 0).sum()) for batch in batches)
    views = 3 * forward_flops(model, lengths)
    head = 3 * head_flops(model, masked)
    needed = {OURS: views, THEIRS: views, OURS_MLM: 2 * views + head, PLAIN: 2 * views + head}
    return {f"{name}, bf16": operations for name, operations in needed.items()}


def describe_batches(batches: list[Batch], options: argparse.Namespace) -> str:
    real = sum(int(batch["attention_mask"].sum()) for batch in batches)
    halves = sum(len(batch["attention_mask"]) for batch in batches)
    empty = 1 - real / sum(batch["attention_mask"].numel() for batch in batches)
    return (
        f"{options.steps} steps of {options.batch} documents, halves cut at {options.max_length}: {real / halves:.0f} "
        f"tokens a half, {100 * empty:.0f} % of the padded places empty. Median of {options.rounds} rounds."
    )


if __name__ == "__main__":
    main()
