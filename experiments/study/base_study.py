"""The study of the papers' positive pairs at the size of BERT base, on one card of the H100's class.

    python -m experiments.study.base_study --corpus wikipedia.jsonl --data data --minutes 9

It trains a common start by masked words, then the methods from it, in this process and in the order of their value,
and measures each one with few labels. It ends before --minutes are over; the same command continues. --plan prints the
runs with their minutes, --dry_run tries everything with a tiny encoder in some minutes on a CPU. All scores are in
records.jsonl of the working folder; experiments.study.base_report makes tables of them.

With --keep, checkpoints stay in the folder "runs", so that the papers' full and few-shot tables can be made of them:

    python -m experiments --preset papers --models output/base_study/runs/cropping/batch36/0.0001/seed0 \\
        --tasks 20News BBCNews --task_folders 20News=data/20news BBCNews=data/bbc_news
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import torch
from datasets import Dataset, load_from_disk
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback
from transformers.utils import logging as transformers_logging

from docsplit_hf import AutoModelForDocSplit, DataCollatorForDocSplit, DocumentEncoder, load_documents
from docsplit_hf.encoding.small_bert import cached_small_bert_tokenizer
from docsplit_hf.reading.package_documentation import load_package_documentation
from docsplit_hf.reading.segmentation.segment_documents import segment_documents
from experiments.study.base_evaluation import (
    Score,
    all_texts,
    load_tasks,
    start_processes,
    submit_embeddings,
    submit_word_counts,
)
from experiments.study.base_records import (
    RECORDS,
    WORD_COUNTS,
    Record,
    describe_scores,
    measured_pace,
    read_records,
    run_of,
)
from experiments.study.base_runs import BASE, TINY, BaseRun, Size, expected_seconds, planned_runs, run_options, steps_of
from experiments.study.base_start import WEIGHTS, StartTraining
from experiments.study.base_training import Deadline, TimeIsUpError, free_memory, make_trainer
from experiments.study.study_runs import START, TASKS, Options

COUNTED_DOCUMENTS = 640
RESERVED_SECONDS = 20.0  # at the end, for the last scores
PREPARATION_MINUTES = 1.0  # vocabulary, sentences and tokens
DRY_RUN_MINUTES = 0.05  # of training the start
DRY_RUN_LENGTH = 32


class Trained(NamedTuple):
    """A run whose scores are being computed, and its record without them."""

    record: Record
    scores: Sequence[Future[Score]]


class BaseStudy:
    """The study in ``folder``, on a corpus and the data sets in ``data``, until ``minutes`` are over."""

    def __init__(self, options: argparse.Namespace, size: Size) -> None:
        self.size = size
        self.folder = Path(options.folder)
        self.corpus = options.corpus
        self.data = Path(options.data)
        self.given_start = options.start
        self.start_minutes = options.start_minutes
        self.max_length = options.max_length
        self.keep = options.keep
        self.most_runs = options.runs
        self.deadline = time.monotonic() + 60 * options.minutes - RESERVED_SECONDS
        self.pool = start_processes(options.workers)
        self.waiting: list[Trained] = []
        self.card = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"

    def run(self) -> None:
        """Do all that is not done yet."""
        self.prepare()
        try:
            self.find_start()
            self.measure_untrained()
            for run in self.remaining_runs()[: self.most_runs]:
                self.write_finished()
                self.do_run(run)
            message = "all runs are done"
        except TimeIsUpError as reason:
            message = f"the time is up: {reason}. The same command continues"
        self.write_finished(wait=True)
        self.pool.shutdown()
        print(f"{len(self.records())} records in {self.folder / RECORDS}; {message}.", flush=True)

    def prepare(self) -> None:
        """Load vocabulary, documents and tasks."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer = self.load_tokenizer()
        self.documents = self.load_documents()
        self.tasks = load_tasks(self.data, self.size)
        self.texts = all_texts(self.tasks)

    def load_tokenizer(self) -> PreTrainedTokenizerBase:
        """Train the vocabulary of the start, or load it."""
        folder = Path(self.given_start) if self.given_start else self.folder / "tokenizer"
        if not folder.exists():
            begun = time.monotonic()
            texts = load_documents(self.corpus, test_size=0)["train"].take(self.size.vocabulary_texts)["text"][:]
            cached_small_bert_tokenizer(texts, self.size.vocab_size).save_pretrained(folder)
            print(f"Vocabulary: {time.monotonic() - begun:.0f} s", flush=True)
        return AutoTokenizer.from_pretrained(folder)

    def load_documents(self) -> Dataset:
        """Segment and tokenize the corpus, once for each vocabulary."""
        vocabulary = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        folder = self.folder / f"documents-{hashlib.sha256(vocabulary.encode()).hexdigest()[:12]}"
        if not folder.exists():
            begun = time.monotonic()
            texts = load_documents(self.corpus, test_size=0)["train"]
            cores = os.cpu_count() or 1
            documents = segment_documents(texts, self.tokenizer, num_proc=cores if cores > 1 else None)
            written = folder.with_suffix(".part")
            documents.select_columns(["input_ids", "sentence_lengths"]).save_to_disk(written)
            written.replace(folder)
            print(f"{len(documents)} documents segmented: {time.monotonic() - begun:.0f} s", flush=True)
        return load_from_disk(folder)

    def find_start(self) -> None:
        """Train the common start, unless it is given or trained."""
        options: Options = {"max_length": self.max_length, "dataset_name": str(self.corpus)}
        training = StartTraining(
            self.folder / START,
            self.tokenizer,
            self.size,
            options,
            minutes=self.start_minutes,
            deadline=self.deadline,
        )
        self.start_folder = Path(self.given_start) if self.given_start else training.train(self.documents)
        self.start_name = digest_of_weights(self.start_folder)

    def do_run(self, run: BaseRun) -> None:
        """Train a run, and begin to measure its embeddings.

        Raises:
            TimeIsUpError: If there is too little time for it.
        """
        begun = time.monotonic()
        known = self.records() + [trained.record for trained in self.waiting]
        expected = 1.2 * expected_seconds(run, self.size, self.max_length) * measured_pace(known, self.size, self.card)
        if begun + expected > self.deadline:
            raise TimeIsUpError(f"{run.name} takes about {expected:.0f} seconds")
        record, embeddings = self.train_and_embed(run)
        free_memory()
        record["seconds"] = round(time.monotonic() - begun, 1)
        self.waiting.append(Trained(record, submit_embeddings(self.pool, self.tasks, embeddings, self.size)))
        print(f"{run.name}: {record['steps']} steps, loss {record['loss']:.3f}, {record['seconds']} s", flush=True)

    def train_and_embed(self, run: BaseRun) -> tuple[Record, np.ndarray]:
        """Train a run: its record without time and scores, and the embeddings of the texts of the tasks."""
        options = run_options(run, self.size, self.max_length)
        options |= {"model_name_or_path": str(self.start_folder), "dataset_name": str(self.corpus)}
        folder = self.folder / "runs" / run.name
        trainer = make_trainer(options, folder, self.tokenizer, self.documents, Deadline(self.deadline))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        if trainer.state.global_step < options["max_steps"]:
            raise TimeIsUpError(f"{run.name} has {trainer.state.global_step} of {options['max_steps']} steps")
        if self.keep:
            trainer.save_model()
        record = self.new_record(run.method, run.batch, run.rate, run.seed, options["max_steps"])
        record["tokens"] = self.tokens_read(trainer.training_collator, run.batch * options["max_steps"])
        record["loss"] = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs][-1]
        return record, self.embed(trainer.model)

    def tokens_read(self, collator: DataCollatorForDocSplit, documents: int) -> int:
        """The tokens of the views of a number of documents, from the mean of the first ones."""
        counted = min(COUNTED_DOCUMENTS, len(self.documents))
        batch = collator([self.documents[row] for row in range(counted)])
        return round(int(batch["attention_mask"].sum()) / counted * documents)

    def embed(self, model: PreTrainedModel) -> np.ndarray:
        """Embed the texts of all tasks: float32 ``(N, D)``."""
        encoder = DocumentEncoder(model.base_model, self.tokenizer, pooling="mean", max_length=self.max_length)
        return encoder.encode(self.texts, show_progress=False, bf16=True)

    def measure_untrained(self) -> None:
        """Measure the start and word counts."""
        if any(record["start"] == self.start_name and record["method"] == START for record in self.records()):
            return
        begun = time.monotonic()
        model = AutoModelForDocSplit.from_pretrained(str(self.start_folder), pooling="mean", mlm_head=False)
        embeddings = self.embed(model.to("cuda" if torch.cuda.is_available() else "cpu"))
        record = self.new_record(START)
        record["seconds"] = round(time.monotonic() - begun, 1)
        self.waiting.append(Trained(record, submit_embeddings(self.pool, self.tasks, embeddings, self.size)))
        word_counts = submit_word_counts(self.pool, self.tasks, self.size)
        self.waiting.append(Trained(self.new_record(WORD_COUNTS), word_counts))

    def new_record(self, method: str, batch: int = 0, rate: float = 0.0, seed: int = 0, steps: int = 0) -> Record:
        """A record without what is measured."""
        return {
            "start": self.start_name,
            "method": method,
            "batch": batch,
            "rate": rate,
            "seed": seed,
            "steps": steps,
            "max_length": self.max_length,
            "tokens": 0,
            "seconds": 0.0,
            "loss": 0.0,
            "card": self.card,
            "scores": [],
        }

    def records(self) -> list[Record]:
        """All records."""
        return read_records(self.folder / RECORDS)

    def write_finished(self, wait: bool = False) -> None:
        """Write the records whose scores are computed, or all of them."""
        still_waiting = []
        for trained in self.waiting:
            if not wait and not all(score.done() for score in trained.scores):
                still_waiting.append(trained)
                continue
            record = trained.record | {"scores": [score.result() for score in trained.scores]}
            with (self.folder / RECORDS).open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{record['method']}, batch {record['batch']}: {describe_scores(record)}", flush=True)
        self.waiting = still_waiting

    def remaining_runs(self) -> list[BaseRun]:
        """The planned runs that have no record from this start."""
        done = {
            run_of(record)
            for record in self.records()
            if record["start"] == self.start_name and record["max_length"] == self.max_length
        }
        return [run for run in planned_runs(self.size) if run not in done]


def digest_of_weights(folder: Path) -> str:
    """The first digits of the SHA-256 of a checkpoint's weights."""
    with (folder / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def print_plan(size: Size, max_length: int, start_minutes: float, records: Sequence[Record]) -> None:
    """Print the runs with their minutes; those with a record are marked."""
    done = {run_of(record) for record in records}
    pace = measured_pace(records, size, records[-1]["card"]) if records else 1.0
    total = PREPARATION_MINUTES + start_minutes
    print(f"    {total:5.1f} min  preparation and the common start")
    for number, run in enumerate(planned_runs(size), start=1):
        minutes = expected_seconds(run, size, max_length) * pace / 60
        total += minutes
        mark = "done" if run in done else ""
        steps = steps_of(run, size)
        print(f"{number:2d}  {minutes:5.1f} min  {total:6.1f} in all  {steps:5d} steps  {run.name}  {mark}")


def write_dry_run_data(folder: Path) -> tuple[Path, Path]:
    """Write a corpus and tasks from the documentation of packages, with the package as label; return both paths."""
    corpus = folder / "corpus.jsonl"
    data = folder / "data"
    rows = load_package_documentation(test_size=500)
    labels = rows["train"].features["label"]
    write_lines(corpus, [{"text": row["text"]} for row in rows["train"].select(range(600))])
    splits = {"train": rows["train"].select(range(600, 1200)), "test": rows["test"]}
    for name in TASKS.values():
        for split, documents in splits.items():
            texts = [{"text": row["text"][:1000], "label": labels.int2str(row["label"])} for row in documents]
            write_lines(data / name / f"{split}.jsonl", texts)
    return corpus, data


def write_lines(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write one row per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="wikipedia.jsonl", help="Articles, column text. Default: %(default)s.")
    parser.add_argument("--data", default="data", help="The folder of the data sets. Default: %(default)s.")
    parser.add_argument("--folder", default="output/base_study", help="Start and records. Default: %(default)s.")
    parser.add_argument("--start", help="A checkpoint in place of a start from random weights.")
    parser.add_argument("--start_minutes", type=float, default=6.0, help="Training of the start. Default: %(default)g.")
    parser.add_argument("--max_length", type=int, default=128, help="Of rows, views and texts. Default: %(default)s.")
    parser.add_argument("--minutes", type=float, default=60.0, help="End before these are over. Default: %(default)g.")
    parser.add_argument("--runs", type=int, help="The most runs of this command. Default: all.")
    parser.add_argument("--workers", type=int, default=max(1, cores // 2 - 1), help="Processes that compute scores.")
    parser.add_argument("--keep", action="store_true", help="Keep the checkpoint of each run.")
    parser.add_argument("--plan", action="store_true", help="Print the runs with their minutes, and end.")
    parser.add_argument("--dry_run", action="store_true", help="Try everything with a tiny encoder.")
    return parser.parse_args(arguments)


def quiet_libraries() -> None:
    """Show the log of the study alone: nearly every text is cut, and that is meant."""
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    datasets.disable_progress_bars()


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    size = TINY if options.dry_run else BASE
    if options.plan:
        print_plan(size, options.max_length, options.start_minutes, read_records(Path(options.folder, RECORDS)))
        return
    if options.dry_run:
        options.folder = str(Path(options.folder, "dry_run"))
        corpus, data = write_dry_run_data(Path(options.folder))
        options.corpus = str(corpus)
        options.data = str(data)
        options.max_length = min(options.max_length, DRY_RUN_LENGTH)
        options.start_minutes = min(options.start_minutes, DRY_RUN_MINUTES)
    BaseStudy(options, size).run()


if __name__ == "__main__":
    quiet_libraries()
    main()
