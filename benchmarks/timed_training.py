"""The time that a training run takes from its first batch to its last step, measured alike for all trainers."""

import argparse
import tempfile
from collections.abc import Callable
from typing import Any

from benchmark_inputs import DEVICE, load_texts
from datasets import Dataset, disable_progress_bars
from side_by_side import now
from transformers import (
    AutoTokenizer,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
)

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    segment_documents,
)


class Clock(TrainerCallback):
    """From the moment before the first batch is made to the end of the last step: not what is set up before."""

    def on_epoch_begin(self, args, state, control, **kwargs) -> None:
        self.start = now()

    def on_epoch_end(self, args, state, control, **kwargs) -> None:
        self.seconds = now() - self.start


def load_segmented(options: argparse.Namespace, folder: str, count: int) -> Dataset:
    """So many documents that have halves, as token ids."""
    disable_progress_bars()
    texts = load_texts(options.texts, count + count // 4 + 20)  # those of one sentence are left out
    documents = segment_documents(Dataset.from_dict({"text": texts}), AutoTokenizer.from_pretrained(folder))
    if len(documents) < count:
        raise SystemExit(f"{len(documents):,} of {len(texts):,} texts have two sentences or more: nothing is measured.")
    return documents.select(range(count))


def make_collator(folder: str, max_length: int, mlm: bool) -> DataCollatorForDocSplit:
    """What makes the halves. Those of epoch 0 are the same in each round, with MLM or without."""
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
    """A run of ContrastiveTrainer over the documents, in seconds. Each call begins with the model of the folder."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as output:
            chosen = {**common_arguments(batch, bf16), "mlm_weight": 0.1 if mlm else 0.0, **arguments}
            trainer = ContrastiveTrainer(
                model=AutoModelForDocSplit.from_pretrained(folder, pooling="mean", mlm_head=mlm),
                args=ContrastiveTrainingArguments(output, train_sampling_strategy="sequential", **chosen),
                train_dataset=documents,
                data_collator=make_collator(folder, max_length, mlm),
            )
            return train(trainer)

    return run


def train(trainer: Trainer) -> float:
    """Train, and give the seconds of the epoch."""
    clock = Clock()
    trainer.add_callback(clock)
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    trainer.train()
    return clock.seconds
