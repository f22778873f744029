"""Clauses of contracts with six labels: the 38 tasks that LegalBench made of CUAD, beside published results.

    git clone https://github.com/HazyResearch/legalbench; git -C legalbench checkout 91dc5b6
    OMP_NUM_THREADS=1 python -m benchmarks.quality.cuad measure --legalbench legalbench --precision int8
    python -m benchmarks.quality.cuad report

Is a clause of a type, such as "Anti-Assignment", or another one? Each task has six labeled clauses, and tests of which
half are of the type. As MTEB does, systems learn from the six, and accuracy is measured on the tests. LegalBench's
tests are taken without clauses that are among the six. The systems:

- probe: logistic regression on embeddings, as in MTEB.
- labels: add_examples and fit; the labels say nothing ("1" and "2").
- names: the labels are the title in the task's README, and "another clause".
- question: the title is followed by the question that the annotators of the clauses answered, from the README.
- ..., own texts: the texts that are to be classified are documents, without their labels (transductive).
- ..., other clauses: up to 1,500 clauses of the other tasks are documents. Nearly all of them are another clause.
- ..., other clauses, uniform: the same with class_proportions="uniform", as a user who knows that half are of the type.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from docsplit_hf.training.markdown import table

RECORDS = Path(__file__).parents[2] / "docs" / "results" / "contracts" / "cuad.jsonl"
OTHER = "another clause"
MOST_CLAUSES = 1500  # of other tasks
WORST = 10  # tasks in the report
DRAWS = 10_000  # of tasks, for the interval of a mean
# Mean accuracy over the 38 tasks, in %: embeddings-benchmark/results at commit f4cc6c8.
PUBLISHED = {
    "all-MiniLM-L6-v2": 79.2,
    "all-mpnet-base-v2": 79.6,
    "multilingual-e5-small": 80.5,
    "e5-mistral-7b-instruct": 77.8,
    "GritLM-7B": 81.8,
}


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


SYSTEMS = {
    "labels": System("numbers"),
    "names": System("title"),
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


def other_clauses(task: Task, tasks: list[Task]) -> list[str]:
    """Clauses of the other tasks, in random order, without those of this one."""
    clauses = [text for other in tasks if other is not task for text in other.tests]
    random.Random(0).shuffle(clauses)
    own = {*task.examples, *task.tests}
    return [text for text in dict.fromkeys(clauses) if text not in own][:MOST_CLAUSES]


def accuracy(embedder: Embedder, task: Task, tasks: list[Task], system: System) -> float:
    """Fit the pipeline to the examples of a task, and classify its tests."""
    names = {
        "numbers": ("1", "2"),
        "title": (task.title, OTHER),
        "question": (f"{task.title}: {task.question}", OTHER),
    }
    of_type, other = names[system.labels]
    pipe = embedder.pipeline()
    with embedder.remembered():
        pipe.add_examples(task.examples, [of_type if label else other for label in task.example_labels])
        if system.documents:
            pipe.add_documents(task.tests if system.documents == "own" else other_clauses(task, tasks))
        pipe.fit(show_progress=False, class_proportions=system.proportions)
        answers = pipe(task.tests)
    return float(np.mean([answer["label"] == of_type for answer in answers] == task.test_labels))


def probe_accuracy(embedder: Embedder, task: Task) -> float:
    """The accuracy of logistic regression on the embeddings."""
    probe = LogisticRegression(max_iter=100).fit(embedder.embed(task.examples), task.example_labels)
    return float((probe.predict(embedder.embed(task.tests)) == task.test_labels).mean())


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def measure(options: argparse.Namespace) -> None:
    """Measure all systems on each task, and append a record for it; tasks that have one are left out."""
    tasks = load_tasks(options.legalbench)
    texts = sorted({text for task in tasks for text in task.examples + task.tests})
    int8 = {"precision": "int8", "calibration_texts": texts[:: len(texts) // 300]}
    reading = types.SimpleNamespace(pool=texts, test=[])
    model = options.model or default_model()
    embedder = Embedder(model, reading, options.embeddings, **(int8 if options.precision == "int8" else {}))
    finished = {record["task"] for record in read_records(options.output) if record["encoder"] == options.name}
    for task in tasks:
        if task.name in finished:
            continue
        record = {"encoder": options.name, "precision": options.precision, "task": task.name, "tests": len(task.tests)}
        record["of_type"] = float(task.test_labels.mean())
        record["accuracy"] = {"probe": probe_accuracy(embedder, task)}
        for name, system in SYSTEMS.items():
            record["accuracy"][name] = accuracy(embedder, task, tasks, system)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)


def interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a mean over tasks, by drawing tasks with replacement."""
    drawn = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def report(options: argparse.Namespace) -> None:
    """Print the means with their intervals, and the tasks with the lowest accuracy of ``names, own texts``."""
    records = read_records(options.output)
    for encoder in dict.fromkeys(record["encoder"] for record in records):
        own = [record for record in records if record["encoder"] == encoder]
        print(f"\n{encoder}, {len(own)} tasks\n")
        rows = []
        for name in own[0]["accuracy"]:
            values = 100 * np.array([record["accuracy"][name] for record in own])
            low, high = interval(values)
            rows.append([name, f"{values.mean():.1f}", f"{low:.1f} to {high:.1f}", f"{values.min():.1f}"])
        print(table(["", "accuracy (%)", "95 % interval", "worst task"], rows))
        worst = sorted(own, key=lambda record: record["accuracy"]["names, own texts"])[:WORST]
        shown = ["probe", "names", "names, own texts", "names, other clauses"]
        rows = [[record["task"], *(f"{100 * record['accuracy'][name]:.1f}" for name in shown)] for record in worst]
        print("\n" + table(["task", *shown], rows))
    print("\n" + table(["published: MTEB", "accuracy (%)"], [[name, str(mean)] for name, mean in PUBLISHED.items()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("part", choices=["measure", "report"])
    add("--legalbench", type=Path, default=Path("legalbench"), help="A clone of LegalBench. Default: %(default)s.")
    add("--name", default="all-MiniLM-L6-v2", help="The encoder's name in records. Default: %(default)s.")
    add("--model", help="A folder, or a model on the Hub. Default: the installed all-MiniLM-L6-v2.")
    add("--precision", choices=["float32", "int8"], default="float32", help="Default: %(default)s.")
    add("--embeddings", type=Path, default=Path("output/embeddings"), help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RECORDS, help="A file of records. Default: %(default)s.")
    options = parser.parse_args()
    measure(options) if options.part == "measure" else report(options)


if __name__ == "__main__":
    main()
