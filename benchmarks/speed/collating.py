"""Measure how long one process takes to read and collate a document for a training step of DocSplit.

"collating" has rows that are read already, in the form in which the training loader reads them; "reading and collating"
is the training loader itself, in random order and without workers. Both without and with MLM. The time is that of the
processor in one thread, so that other programs hardly matter; the four take turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import DataLoader

from benchmarks.inputs import default_model
from benchmarks.speed.side_by_side import ran_on, take_turns
from benchmarks.speed.timed_training import common_arguments, load_segmented, make_collator
from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments
from docsplit_hf.encoding.small_bert import small_bert_config
from docsplit_hf.training.markdown import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", help="A model on the Hub or a folder, for its tokenizer. Default: the installed all-MiniLM-L6-v2.")
    add("--texts", help="A file with a column 'text', or a folder. Default: documentation of installed packages.")
    add("--documents", type=int, default=1280, help="Documents of a round. Default: %(default)s.")
    add("--batch", type=int, default=128, help="Documents of a batch. Default: %(default)s.")
    add("--max_length", type=int, default=256, help="Tokens of a half. Default: %(default)s.")
    add("--rounds", type=int, default=7, help="How often each is timed. Default: %(default)s.")
    add("--about", default="", help="A note for the record, such as the version that is measured.")
    add("--record", type=Path, help="A JSONL file to add the milliseconds of every round to.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = options.model or default_model()
    documents = load_segmented(options, folder, options.documents)
    competitors: dict[str, Callable[[], float]] = {}
    for with_mlm, name in ((False, "without MLM"), (True, "with MLM")):
        loader = training_loader(folder, documents, options, with_mlm)
        competitors[f"collating, {name}"] = timed_collating(loader)
        competitors[f"reading and collating, {name}"] = timed_loader(loader)
    seconds = take_turns(options.rounds, competitors).rounds
    milliseconds = {}
    for name, rounds in seconds.items():
        milliseconds[name] = [round(1000 * one / options.documents, 5) for one in rounds]
    tokens = float(np.mean([len(ids) for ids in documents["input_ids"]]))
    source = Path(options.texts).name if options.texts else "documentation of installed packages"
    if options.record:
        record = {
            "date": datetime.date.today().isoformat(),
            "about": options.about,
            "texts": source,
            "documents": options.documents,
            "mean_tokens": round(tokens, 1),
            "batch": options.batch,
            "max_length": options.max_length,
            "milliseconds_per_document": milliseconds,
            "ran_on": ran_on(),
        }
        options.record.parent.mkdir(parents=True, exist_ok=True)
        with options.record.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")
    print(f"{options.documents:,} documents of {tokens:,.0f} tokens on average ({source}), halves cut at")
    print(f"{options.max_length}, in batches of {options.batch}. Median of {options.rounds} rounds. {ran_on()}\n")
    rows = []
    for name, rounds in milliseconds.items():
        median = statistics.median(rounds)
        rows.append((name, f"{median:.3f}", f"{1000 / median:,.0f}"))
    print(table(("", "ms a document", "documents/s"), rows))


def training_loader(folder: str, documents: Dataset, options: argparse.Namespace, with_mlm: bool) -> DataLoader:
    """The training loader of ContrastiveTrainer, with a tiny model."""
    collator = make_collator(folder, options.max_length, with_mlm)
    config = small_bert_config(collator.tokenizer, 64, 1)
    config.max_position_embeddings = max(options.max_length, config.max_position_embeddings)
    with tempfile.TemporaryDirectory() as output:
        arguments = common_arguments(options.batch, bf16=False) | {"use_cpu": True}
        trainer = ContrastiveTrainer(
            model=AutoModelForDocSplit.from_config(config, mlm_head=with_mlm),
            args=ContrastiveTrainingArguments(output, mlm_weight=0.1 if with_mlm else 0.0, **arguments),
            train_dataset=documents,
            data_collator=collator,
        )
        return trainer.get_train_dataloader()


def timed_collating(loader: DataLoader) -> Callable[[], float]:
    batches = [loader.dataset.__getitems__(places) for places in loader.batch_sampler]

    def run() -> float:
        start = time.process_time()
        for batch in batches:
            loader.collate_fn(batch)
        return time.process_time() - start

    return run


def timed_loader(loader: DataLoader) -> Callable[[], float]:
    def run() -> float:
        start = time.process_time()
        for _ in loader:
            pass
        return time.process_time() - start

    return run


if __name__ == "__main__":
    main()
