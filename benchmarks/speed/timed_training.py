"""The time of a training run from its first batch to its last step, measured in the same way for all trainers."""

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

from datasets import Dataset, disable_progress_bars
from transformers import (
    AutoTokenizer,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
)

from benchmarks.inputs import DEVICE, load_texts
from benchmarks.speed.side_by_side import now
from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    segment_documents,
)


class Clock(TrainerCallback):
    """The seconds from before the first batch is made to the end of the last step, without the setup."""

    def on_epoch_begin(self, args, state, control, **kwargs) -> None:
        self.start = now()

    def on_epoch_end(self, args, state, control, **kwargs) -> None:
        self.seconds = now() - self.start


def load_segmented(options: argparse.Namespace, folder: str, count: int) -> Dataset:
    """``count`` documents of two sentences or more, as token ids."""
    disable_progress_bars()
    texts = load_texts(options.texts, count + count // 4 + 20)  # some have one sentence, and are left out
    documents = segment_documents(Dataset.from_dict({"text": texts}), AutoTokenizer.from_pretrained(folder))
    if len(documents) < count:
        raise SystemExit(f"{len(documents):,} of {len(texts):,} texts have two sentences or more: nothing is measured.")
    return documents.select(range(count))


def make_collator(folder: str, max_length: int, mlm: bool) -> DataCollatorForDocSplit:
    """The collator, which makes the halves; those of epoch 0 are the same in each round, with MLM or without."""
    probability = 0.15 if mlm else 0.0
    return DataCollatorForDocSplit(AutoTokenizer.from_pretrained(folder), max_length, probability)


def common_arguments(batch: int, bf16: bool) -> dict[str, Any]:
    """Arguments of all trainers: one epoch over the documents in their order, nothing saved, nothing logged."""
    return {
        "num_train_epochs": 1,
        "per_device_train_batch_size": batch,
        "bf16": bf16,
        "use_cpu": DEVICE == "cpu",
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_drop_last": True,
        "dataloader_num_workers": 0,  # starting workers would take longer than the few steps that are timed
    }


def timed_ours(
    folder: str,
    documents: Dataset,
    batch: int,
    max_length: int,
    mlm: bool,
    bf16: bool,
    **arguments: Any,
) -> Callable[[], float]:
    """A function that runs ContrastiveTrainer over the documents, from the model in the folder, and returns seconds."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as output:
            args = ContrastiveTrainingArguments(
                output,
                train_sampling_strategy="sequential",
                mlm_weight=0.1 if mlm else 0.0,
                **common_arguments(batch, bf16),
                **arguments,
            )
            trainer = ContrastiveTrainer(
                model=AutoModelForDocSplit.from_pretrained(folder, pooling="mean", mlm_head=mlm),
                args=args,
                train_dataset=documents,
                data_collator=make_collator(folder, max_length, mlm),
            )
            return train(trainer)

    return run


def train(trainer: Trainer) -> float:
    """Train, and return the seconds of the epoch."""
    clock = Clock()
    trainer.add_callback(clock)
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    trainer.train()
    return clock.seconds
