"""The study of the papers' positive pairs at the size of BERT base, on one card of the H100's class.

    python -m experiments.study.base_study --corpus wikipedia.jsonl --data data --minutes 9

It trains a common start from random weights by masked words, trains the methods from it in this process, and measures
each one with few labels (README of the study: docs/results/study.md). The runs come in the order of their value. It
ends before --minutes are over; the same command continues. --plan prints the runs with their minutes, --dry_run tries
everything on a CPU in a few minutes. All scores are in records.jsonl of the working folder;
experiments.study.base_report makes tables of them.

With --keep, checkpoints stay in the folder "runs", so that the papers' full and few-shot tables can be made of them:

    python -m experiments --preset papers --models output/base_study/runs/cropping/batch36/0.0001/seed0 \\
        --tasks 20News BBCNews --task_folders 20News=data/20news BBCNews=data/bbc_news
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, TypedDict

import datasets
import numpy as np
import torch
from datasets import Dataset, load_from_disk
from transformers import (
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    TrainerCallback,
)
from transformers.utils import logging as transformers_logging

from docsplit_hf import AutoModelForDocSplit, DataCollatorForDocSplit, DocumentEncoder, load_documents
from docsplit_hf.cli.pretrain import load_pretrained
from docsplit_hf.cli.pretrain_arguments import parse_command_line
from docsplit_hf.encoders.small_bert import cached_small_bert_tokenizer, small_bert_config
from docsplit_hf.pretraining.contrastive_trainer import ContrastiveTrainer
from docsplit_hf.pretraining.objectives import get_trainer_class
from docsplit_hf.text.package_documentation import load_package_documentation
from docsplit_hf.text.segmentation.segment_documents import segment_documents
from docsplit_hf.training.resuming import complete_checkpoints
from experiments.study.base_evaluation import (
    Score,
    all_texts,
    load_tasks,
    start_processes,
    submit_embeddings,
    submit_word_counts,
)
from experiments.study.base_runs import (
    BASE,
    SPECIAL_TOKENS,
    TINY,
    BaseRun,
    Size,
    expected_seconds,
    planned_runs,
    run_options,
    steps_of,
)
from experiments.study.study_runs import START, TASKS, Options, as_arguments

WORD_COUNTS = "word counts"
RECORDS = "records.jsonl"
COUNTED_DOCUMENTS = 640
RESERVED_SECONDS = 20.0  # at the end, for the last scores
SAVING_SECONDS = 15.0  # for a checkpoint of the start
PREPARATION_MINUTES = 1.0  # vocabulary, sentences and tokens
DRY_RUN_MINUTES = 0.05  # of training the start
MOST_START_STEPS = 100_000  # while steps are timed


class Record(TypedDict):
    """What was measured of a run, of the start or of word counts; a line of ``RECORDS``."""

    start: str  # the first digits of the SHA-256 of the start's weights
    method: str
    batch: int
    rate: float
    seed: int
    steps: int
    max_length: int
    tokens: int  # read in training, without padding; estimated from the first documents
    seconds: float  # of training and embedding
    loss: float  # the mean of the last twentieth of the steps
    card: str
    scores: list[Score]


class Trained(NamedTuple):
    """A run whose scores are being computed, and its record without them."""

    record: Record
    scores: Sequence[Future[Score]]


class TimeIsUpError(Exception):
    """The given minutes are over, and the same command continues."""


class Deadline(TrainerCallback):
    """Stop a training in time, with a checkpoint if ``saves``, or after some steps; note when each step ended."""

    def __init__(self, at: float, saves: bool = False, most_steps: float = math.inf) -> None:
        self.at = at
        self.saves = saves
        self.most_steps = most_steps
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **kwargs) -> None:
        self.ends.append(time.monotonic())
        if time.monotonic() > self.at or len(self.ends) >= self.most_steps:
            control.should_training_stop = True
            control.should_save = self.saves


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
        self.deadline = time.monotonic() + 60 * options.minutes
        self.pool = start_processes(options.workers)
        self.waiting: list[Trained] = []
        self.card = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"

    def prepare(self) -> None:
        """Load vocabulary, documents and tasks."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer = self.load_tokenizer()
        self.documents = self.load_documents()
        self.tasks = load_tasks(self.data, self.size)
        self.texts = all_texts(self.tasks)

    def run(self) -> None:
        """Do all that is not done yet."""
        self.prepare()
        try:
            self.train_start()
            free_memory()
            self.start_name = digest_of_weights(self.start_folder)
            self.measure_untrained()
            for run in self.remaining_runs()[: self.most_runs]:
                self.write_finished()
                expected = 1.2 * expected_seconds(run, self.size, self.max_length) * self.pace()
                if time.monotonic() + expected > self.deadline - RESERVED_SECONDS:
                    raise TimeIsUpError(f"{run.name} would take about {expected:.0f} seconds")
                self.do_run(run)
            message = "all runs are done"
        except TimeIsUpError as reason:
            message = f"the time is up: {reason}. The same command continues"
        self.write_finished(wait=True)
        self.pool.shutdown()
        print(f"{len(self.read_records())} records in {self.folder / RECORDS}; {message}.", flush=True)

    @property
    def start_folder(self) -> Path:
        """The folder of the common start."""
        return Path(self.given_start) if self.given_start else self.folder / START

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

    # The start

    def train_start(self) -> None:
        """Train the start by masked words, for as many steps as fit into its minutes."""
        if self.given_start or (self.start_folder / "model.safetensors").exists():
            return
        rows = rows_of_tokens(self.documents, self.max_length - SPECIAL_TOKENS)
        plan = self.folder / "start.json"
        if not plan.exists():
            plan.write_text(json.dumps(self.plan_start(rows)))
        options = json.loads(plan.read_text())
        saved_by = self.deadline - RESERVED_SECONDS - SAVING_SECONDS
        trainer = self.make_start_trainer(options, rows, Deadline(saved_by, saves=True))
        resume = "last" if complete_checkpoints(self.start_folder) else None
        trainer.train(resume)
        steps = trainer.state.global_step
        if steps < options["max_steps"]:
            raise TimeIsUpError(f"the start has {steps} of {options['max_steps']} steps")
        trainer.save_model()
        for checkpoint in complete_checkpoints(self.start_folder):
            shutil.rmtree(checkpoint)

    def plan_start(self, rows: Dataset) -> Options:
        """The options of the start; some steps are timed to decide how many there are."""
        options: Options = {
            "objective": "mlm",
            "pooling": "mean",
            "views_kwargs": {"parts": 1},  # a row as it is
            "max_length": self.max_length,
            "per_device_train_batch_size": self.size.start_batch,
            "learning_rate": self.size.start_rate,
            "adam_beta2": 0.98,
            "weight_decay": 0.01,
            "lr_scheduler_type": "linear",
            "seed": 0,
        }
        seconds_per_step = self.time_start(options, rows)
        free_memory()
        steps = max(1, int(60 * self.start_minutes / seconds_per_step))
        print(f"Start: {1000 * seconds_per_step:.1f} ms a step, {steps} steps planned", flush=True)
        return options | {"max_steps": steps, "warmup_steps": steps // 10, "logging_steps": max(1, steps // 40)}

    def time_start(self, options: Options, rows: Dataset) -> float:
        """Train for some steps, and return the seconds of one, without the first half, which may compile."""
        clock = Deadline(self.deadline, most_steps=self.size.timed_steps)
        self.make_start_trainer(options | {"max_steps": MOST_START_STEPS}, rows, clock).train()
        later = clock.ends[len(clock.ends) // 2 :]
        return (later[-1] - later[0]) / (len(later) - 1)

    def make_start_trainer(self, options: Options, rows: Dataset, clock: Deadline) -> ContrastiveTrainer:
        """A trainer of an encoder with random weights, the same in each call."""
        torch.manual_seed(0)
        config = small_bert_config(self.tokenizer, self.size.hidden_size, self.size.layers)
        model = AutoModelForDocSplit.from_config(config, pooling="mean")
        return self.make_trainer(options, self.start_folder, rows, clock, model)

    # The runs

    def make_trainer(
        self, options: Options, folder: Path, documents: Dataset, clock: Deadline, model: PreTrainedModel | None = None
    ) -> ContrastiveTrainer:
        """A trainer as ``docsplit pretrain`` makes it of these options, in this process; no model: the start."""
        given = options | self.surroundings() | {"output_dir": str(folder), "dataset_name": str(self.corpus)}
        if model is None:
            given["model_name_or_path"] = str(self.start_folder)
        _, (model_arguments, data, arguments) = parse_command_line("", as_arguments(given))
        if model is None:
            model, _ = load_pretrained(model_arguments, data, arguments)
        collator = DataCollatorForDocSplit(
            self.tokenizer,
            max_length=data.max_length,
            mlm_probability=data.mlm_probability if arguments.mlm_weight > 0 else 0,
            views=data.views,
            views_kwargs=data.views_kwargs,
            seed=arguments.seed,
        )
        trainer_class = get_trainer_class(arguments.objective)
        return trainer_class(model, arguments, documents, data_collator=collator, callbacks=[clock])

    def surroundings(self) -> Options:
        """Options that change no result: what is logged and saved, and what computes."""
        on_card = torch.cuda.is_available()
        return {
            "bf16": True,
            "disable_tqdm": "True",  # the option takes a value
            "report_to": "none",
            "eval_strategy": "no",
            "save_strategy": "no",
            "load_best_model_at_end": False,
            "dataloader_num_workers": min(8, (os.cpu_count() or 2) // 2) if on_card else 0,
        } | ({} if on_card else {"use_cpu": True})

    def do_run(self, run: BaseRun) -> None:
        """Train a run, and begin to measure its embeddings."""
        begun = time.monotonic()
        record, embeddings = self.train_and_embed(run)
        free_memory()
        record["seconds"] = round(time.monotonic() - begun, 1)
        self.waiting.append(Trained(record, submit_embeddings(self.pool, self.tasks, embeddings, self.size)))
        print(f"{run.name}: {record['steps']} steps, loss {record['loss']:.3f}, {record['seconds']} s", flush=True)

    def train_and_embed(self, run: BaseRun) -> tuple[Record, np.ndarray]:
        """Train a run: its record without time and scores, and the embeddings of the texts of the tasks."""
        options = run_options(run, self.size, self.max_length)
        folder = self.folder / "runs" / run.name
        trainer = self.make_trainer(options, folder, self.documents, Deadline(self.deadline - RESERVED_SECONDS))
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
        done = {(record["start"], record["method"]) for record in self.read_records()}
        if (self.start_name, START) in done:
            return
        begun = time.monotonic()
        model = AutoModelForDocSplit.from_pretrained(str(self.start_folder), pooling="mean", mlm_head=False)
        embeddings = self.embed(model.to("cuda" if torch.cuda.is_available() else "cpu"))
        record = self.new_record(START)
        record["seconds"] = round(time.monotonic() - begun, 1)
        self.waiting.append(Trained(record, submit_embeddings(self.pool, self.tasks, embeddings, self.size)))
        word_counts = submit_word_counts(self.pool, self.tasks, self.size)
        self.waiting.append(Trained(self.new_record(WORD_COUNTS), word_counts))

    # The records

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

    def read_records(self) -> list[Record]:
        """All records."""
        path = self.folder / RECORDS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

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
            (record["method"], record["batch"], record["rate"], record["seed"])
            for record in self.read_records()
            if record["start"] == self.start_name and record["max_length"] == self.max_length
        }
        return [run for run in planned_runs(self.size) if tuple(run) not in done]

    def pace(self) -> float:
        """The time that runs took on this card, relative to the expected one."""
        return measured_pace(self.read_records() + [trained.record for trained in self.waiting], self.size, self.card)


def rows_of_tokens(documents: Dataset, length: int) -> Dataset:
    """The tokens of all documents, one after another, cut into rows of ``length``; the rest is left out."""
    column = documents.with_format("arrow")[:]["input_ids"].combine_chunks()
    tokens = column.flatten().to_numpy()
    count = len(tokens) // length
    rows = tokens[: count * length].reshape(count, length)
    return Dataset.from_dict({"input_ids": list(rows), "sentence_lengths": [[length]] * count})


def digest_of_weights(folder: Path) -> str:
    """The first digits of the SHA-256 of a checkpoint's weights."""
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def measured_pace(records: Sequence[Record], size: Size, card: str) -> float:
    """The median of measured and expected time of the runs on a card; 1 without runs."""
    ratios = []
    for record in records:
        if record["card"] == card and record["steps"]:
            run = BaseRun(record["method"], record["batch"], record["rate"], record["seed"])
            ratios.append(record["seconds"] / expected_seconds(run, size, record["max_length"]))
    return float(np.median(ratios)) if ratios else 1.0


def describe_scores(record: Record) -> str:
    """The mean scores of a record on the test sets, by the number of shots."""
    by_shots: dict[int, list[float]] = {}
    for score in record["scores"]:
        if score["split"] == "test":
            by_shots.setdefault(score["shots"], []).append(float(np.mean(score["macro_f1"])))
    return ", ".join(f"{np.mean(means):.1f} with {shots} shots" for shots, means in sorted(by_shots.items()))


def free_memory() -> None:
    """Free the memory of trainers that are no longer used; their parts refer to each other."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def print_plan(size: Size, max_length: int, start_minutes: float, records: Sequence[Record]) -> None:
    """Print the runs with their minutes; those with a record are marked."""
    done = {(record["method"], record["batch"], record["rate"], record["seed"]): record for record in records}
    total = PREPARATION_MINUTES + start_minutes
    print(f"    {total:5.1f} min  preparation and the common start")
    pace = measured_pace(records, size, records[-1]["card"]) if records else 1.0
    for number, run in enumerate(planned_runs(size), start=1):
        minutes = expected_seconds(run, size, max_length) * pace / 60
        total += minutes
        mark = "done" if tuple(run) in done else ""
        print(
            f"{minutes:5.1f} min  {total:6.1f} in all  {number:2d}  {steps_of(run, size):5d} steps  {run.name}  {mark}"
        )


def write_dry_run_data(folder: Path) -> tuple[Path, Path]:
    """Write a corpus and tasks from the documentation of packages, with the package as label."""
    corpus = folder / "corpus.jsonl"
    data = folder / "data"
    rows = load_package_documentation(test_size=500)
    labels = rows["train"].features["label"]
    write_lines(corpus, [{"text": row["text"]} for row in rows["train"].select(range(600))])
    splits = {"train": rows["train"].select(range(600, 1200)), "test": rows["test"]}
    for name in TASKS.values():
        for split, documents in splits.items():
            # The loader of newsgroup posts removes what comes before the first empty line.
            texts = [{"text": f"\n\n{row['text'][:1000]}", "label": labels.int2str(row["label"])} for row in documents]
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
    parser.add_argument("--start_minutes", type=float, default=6.0, help="Training of the start. Default: 6.")
    parser.add_argument("--max_length", type=int, default=128, help="Of rows, views and texts. Default: %(default)s.")
    parser.add_argument("--minutes", type=float, default=60.0, help="Stop before. Default: %(default)g.")
    parser.add_argument("--runs", type=int, help="The most runs of this command. Default: all.")
    parser.add_argument("--workers", type=int, default=max(1, cores // 2 - 1), help="Processes that compute scores.")
    parser.add_argument("--keep", action="store_true", help="Keep the checkpoint of each run.")
    parser.add_argument("--plan", action="store_true", help="Print the runs with their minutes, and end.")
    parser.add_argument("--dry_run", action="store_true", help="Try everything with a tiny encoder.")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)  # nearly every text is cut, and that is meant
    datasets.disable_progress_bars()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    size = TINY if options.dry_run else BASE
    if options.plan:
        path = Path(options.folder, RECORDS)
        records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        print_plan(size, options.max_length, options.start_minutes, records)
        return
    if options.dry_run:
        options.folder = str(Path(options.folder, "dry_run"))
        options.corpus, data = write_dry_run_data(Path(options.folder))
        options.data = str(data)
        options.max_length = min(options.max_length, 32)
        options.start_minutes = min(options.start_minutes, DRY_RUN_MINUTES)
    BaseStudy(options, size).run()


if __name__ == "__main__":
    main()
