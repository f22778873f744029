"""Clauses of contracts with six labels: the 38 tasks that LegalBench made of CUAD, beside published results.

    git clone https://github.com/HazyResearch/legalbench; git -C legalbench checkout 91dc5b6
    OMP_NUM_THREADS=1 python -m benchmarks.quality.published.cuad measure --legalbench legalbench
    python -m benchmarks.quality.published.cuad report

Is a clause of a type, such as "Anti-Assignment", or another one? Each task has six labeled clauses, and tests of which
half are of the type. As MTEB does, systems learn from the six, and accuracy is measured on the tests. LegalBench's
tests are taken without clauses that are among the six. The systems:

- probe: logistic regression on embeddings, as in MTEB.
- labels: add_examples and fit; the labels say nothing ("1" and "2").
- names: the labels are the title in the task's README, and "another clause".
- names, without style: the same without the expert "style".
- question: the title is followed by the question that the annotators of the clauses answered, from the README.
- ..., own texts: the texts that are to be classified are documents, without their labels (transductive).
- ..., other clauses: up to 1,500 clauses of the other tasks are documents. Nearly all of them are another clause.
- ..., other clauses, uniform: the same with class_proportions="uniform", as a user who knows that half are of the type.

The published results (cuad_published.jsonl) are those of MTEB (embeddings-benchmark/results at f4cc6c8) and of
LegalEvalHub, whose pages of seven tasks could be read: language models without examples.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.published.fixed_examples import (
    RESULTS,
    by_fit,
    by_probe,
    embedder_of,
    interval_of_mean,
    table_parser,
)
from docsplit_hf.fitting.experts.registry import EXPERTS
from docsplit_hf.training.markdown import table

RECORDS = RESULTS / "contracts" / "cuad.jsonl"
PUBLISHED = RESULTS / "contracts" / "cuad_published.jsonl"
KEY = ("encoder", "task", "system")
OTHER = "another clause"
MOST_CLAUSES = 1500  # of other tasks
WORST = 10  # tasks in the report
SHOWN = ("probe", "names", "names, own texts", "names, other clauses")  # systems in the table of the worst tasks


class Task(NamedTuple):
    """A type of clause, its six examples, and its tests; labels are whether a clause is of the type."""

    name: str
    title: str
    question: str
    examples: list[str]
    example_labels: list[bool]
    tests: list[str]
    test_labels: np.ndarray  # bool (N,)


class System(NamedTuple):
    """How the pipeline is used."""

    labels: str  # "numbers", "title" or "question"
    documents: str = ""  # "", "own" or "other"
    proportions: str = "estimated"
    left_out: str = ""  # expert


SYSTEMS = {
    "labels": System("numbers"),
    "names": System("title"),
    "names, without style": System("title", left_out="style"),
    "question": System("question"),
    "names, own texts": System("title", "own"),
    "question, own texts": System("question", "own"),
    "names, other clauses": System("title", "other"),
    "names, other clauses, uniform": System("title", "other", "uniform"),
}


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a .tsv file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def load_tasks(folder: Path) -> list[Task]:
    """The tasks of CUAD in a clone of LegalBench."""
    tasks = []
    for place in sorted((folder / "tasks").glob("CUAD_*")):
        readme = (place / "README.md").read_text(encoding="utf-8")
        examples = read_rows(place / "train.tsv")
        known = {row["text"] for row in examples}
        tests = [row for row in read_rows(place / "test.tsv") if row["text"] not in known]
        tasks.append(
            Task(
                name=place.name.removeprefix("CUAD_"),
                title=re.search(r"^# (.+)$", readme, re.MULTILINE)[1].strip(),
                question=re.search(r"```text\n(.+?)\n```", readme, re.DOTALL)[1].strip(),
                examples=[row["text"] for row in examples],
                example_labels=[row["label"] == "Yes" for row in examples],
                tests=[row["text"] for row in tests],
                test_labels=np.array([row["label"] == "Yes" for row in tests]),
            )
        )
    return tasks


def other_clauses(task: Task, tasks: Sequence[Task]) -> list[str]:
    """Clauses of the other tasks, in random order, without those of this one."""
    clauses = [text for other in tasks if other is not task for text in other.tests]
    random.Random(0).shuffle(clauses)
    own = {*task.examples, *task.tests}
    return [text for text in dict.fromkeys(clauses) if text not in own][:MOST_CLAUSES]


def accuracy(embedder: Embedder, task: Task, tasks: Sequence[Task], name: str) -> float:
    """The accuracy of a system on the tests of a task."""
    if name == "probe":
        is_of_type = by_probe(embedder, task.examples, task.example_labels, task.tests)
        return float((is_of_type == task.test_labels).mean())
    system = SYSTEMS[name]
    of_type, other = {
        "numbers": ("1", "2"),
        "title": (task.title, OTHER),
        "question": (f"{task.title}: {task.question}", OTHER),
    }[system.labels]
    labels = [of_type if label else other for label in task.example_labels]
    documents: list[str] = []
    if system.documents == "own":
        documents = task.tests
    elif system.documents == "other":
        documents = other_clauses(task, tasks)
    experts = [name for name in EXPERTS if name not in (system.left_out, "teacher")] if system.left_out else None
    given = by_fit(embedder, task.examples, labels, task.tests, documents, system.proportions, experts)
    return float(((given == of_type) == task.test_labels).mean())


def measure(options: argparse.Namespace) -> None:
    """Append a record for each task and system that has none."""
    tasks = load_tasks(options.legalbench)
    if not tasks:
        raise SystemExit(f"{options.legalbench} has no tasks/CUAD_*: give a clone of LegalBench with its work tree.")
    embedder = embedder_of(options, [text for task in tasks for text in task.examples + task.tests])
    finished = {tuple(record[field] for field in KEY) for record in read_records(options.output)}
    for task in tasks:
        for system in options.systems or ["probe", *SYSTEMS]:
            key = (options.name, task.name, system)
            if key in finished:
                continue
            record = dict(zip(KEY, key, strict=True)) | {
                "precision": options.precision,
                "tests": len(task.tests),
                "of_type": float(task.test_labels.mean()),
                "accuracy": accuracy(embedder, task, tasks, system),
            }
            add_record(options.output, record)
            print(record, flush=True)


def in_percent(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The accuracy of each task, a column for each encoder and system, without those that lack a task."""
    frame = pd.DataFrame(records)
    columns = [frame["encoder"], frame["system"]]
    wide = 100 * frame.pivot_table(index="task", columns=["encoder", "system"], values="accuracy", sort=False)
    return wide[[column for column in dict.fromkeys(zip(*columns, strict=True)) if wide[column].notna().all()]]


def mean_rows(accuracies: pd.DataFrame) -> list[list[str]]:
    """A row for each encoder and system: the mean over tasks, its interval, and the worst task."""
    rows = []
    for encoder, system in accuracies:
        values = accuracies[encoder, system].to_numpy()
        low, high = interval_of_mean(values)
        rows.append([encoder, system, f"{values.mean():.1f}", f"{low:.1f} to {high:.1f}", f"{values.min():.1f}"])
    return rows


def worst_rows(accuracies: pd.DataFrame) -> list[list[str]]:
    """The tasks with the lowest accuracy with own texts, by the encoder that was measured first."""
    own = accuracies[accuracies.columns[0][0]]
    worst = own.sort_values("names, own texts").head(WORST)
    return [[task, *(f"{worst.loc[task, system]:.1f}" for system in SHOWN)] for task in worst.index]


def published_rows(accuracies: pd.DataFrame) -> list[list[str]]:
    """Published systems and ours: the mean over all tasks, and over those that language models answered; best first."""
    published = read_records(PUBLISHED)
    answered = sorted({task for record in published if record["source"] != "MTEB" for task in record["accuracy"]})
    rows = []
    for record in published:
        values = record["accuracy"]
        whole = f"{100 * np.mean(list(values.values())):.1f}" if record["source"] == "MTEB" else ""
        some = 100 * np.mean([values[task] for task in answered])
        rows.append([record["system"], record["source"], whole, f"{some:.1f}"])
    for encoder, system in accuracies:
        values = accuracies[encoder, system]
        some = values.reindex(answered).mean()
        rows.append([f"{system}, {encoder}", "here", f"{values.mean():.1f}", f"{some:.1f}"])
    return sorted(rows, key=lambda row: -float(row[3]))


def report(options: argparse.Namespace) -> None:
    """Print the tables."""
    accuracies = in_percent(read_records(options.output))
    print(len(accuracies), "tasks\n")
    print(table(["encoder", "", "accuracy (%)", "95 % interval", "worst task"], mean_rows(accuracies)))
    print("\n" + table(["task", *SHOWN], worst_rows(accuracies)))
    print("\n" + table(["accuracy (%)", "source", "all tasks", "7 tasks"], published_rows(accuracies)))


def main() -> None:
    parser = table_parser(__doc__, RECORDS)
    parser.add_argument("--legalbench", type=Path, default=Path("legalbench"), help="A clone of LegalBench.")
    options = parser.parse_args()
    measure(options) if options.part == "measure" else report(options)


if __name__ == "__main__":
    main()
