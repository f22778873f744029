"""results.md: what was measured, in the papers' tables, with what it takes to repeat it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...training.markdown import table
from ..protocols.settings import EvaluationSettings
from .paper_results import CITATION, DECOUPLED, FEW_SHOT, FULL, REDUNDANCY, SENTENCE_SIMILARITY, PaperTable, paper_task
from .summary import Cell, summarize_records
from .tables import MISSING, Spread, escape, table_by_system, table_by_task

CLASSIFICATION = ("accuracy", "macro_f1")
INTERVAL = (
    "± is half the 95 % confidence interval of the mean over the seeds (Student's t), on one and the same test set"
)
DEVIATION = "± is the standard deviation over the draws"
WORD_COUNTS = "of word counts a linear support vector machine"
LENGTH = "`max_length` is the longest input of encoders, in tokens; word counts and endpoints do not know it."


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Args:
        protocol: The protocol of its records.
        title: Its heading.
        text: What is measured; a setting in braces is put in.
        metrics: The columns, in order.
        spread: What stands behind the ±.
        paper: The papers' table that stands beside it.
        by_system: Whether systems are rows and tasks columns; otherwise a task and system is a row.
        plain_digits: Digits of numbers that are no percentages.

    Example:

        >>> SECTIONS[0].title
        'Full classification'
    """

    protocol: str
    title: str
    text: str
    metrics: tuple[str, ...]
    spread: Spread = "interval"
    paper: PaperTable | None = None
    by_system: bool = True
    plain_digits: int | None = None


SECTIONS = (
    Section(
        "full",
        "Full classification",
        f"Frozen features, the whole training set, probe `{{probe}}` ({WORD_COUNTS}). Accuracy and macro F1 in %.",
        CLASSIFICATION,
        paper=FULL,
    ),
    Section(
        "few_shot",
        "Few-shot classification",
        f"Frozen features, {{shots}} examples per class, probe `{{probe}}` ({WORD_COUNTS}). "
        "Accuracy and macro F1 in %.",
        CLASSIFICATION,
        spread="std",
        paper=FEW_SHOT,
    ),
    Section(
        "knn",
        "Nearest neighbors",
        "Frozen features; the labels of the nearest training texts vote. Accuracy and macro F1 in %.",
        CLASSIFICATION,
    ),
    Section(
        "decoupled",
        "Decoupled fine-tuning",
        "The encoder is fine-tuned, its training set kept as a datastore; the classifier is mixed with the neighbors. "
        "In %.",
        (*CLASSIFICATION, "classifier_accuracy", "knn_accuracy"),
        paper=DECOUPLED,
    ),
    Section(
        "citation",
        "Citation",
        "Whether one paper cites the other, from their two embeddings. Accuracy in %, of the head of the Long Range "
        "Arena trained on the pairs (not on word counts, which are too wide for it), and of a threshold on the cosine.",
        ("accuracy", "cosine_accuracy"),
        paper=CITATION,
    ),
    Section(
        "half_documents",
        "Half-document retrieval",
        "Each text is split into two halves at random, sentence by sentence; given one, the other is looked for among "
        "all. In %.",
        ("recall@1", "recall@10", "mrr"),
        by_system=False,
    ),
    Section(
        "nouns_and_verbs",
        "Redundancy: nouns and verbs",
        "R, the number of nouns and verbs over that of distinct ones, by the number of words in a text.",
        ("0-50", "51-100", "101-200", "201-300", "more than 300", "all"),
        paper=REDUNDANCY,
        by_system=False,
        plain_digits=2,
    ),
    Section(
        "redundancy",
        "Redundancy: sentences",
        "Mean cosine similarity of two sentences of one document (within) and of two documents (between).",
        ("within", "between"),
        paper=SENTENCE_SIMILARITY,
        by_system=False,
    ),
    Section(
        "attention",
        "Attention by part of speech",
        "Mean attention weight from the first token to a word, in the last layer.",
        ("noun", "verb", "adjective", "other"),
        by_system=False,
    ),
)


def results_markdown(
    records: Sequence[Mapping[str, Any]],
    runs: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    settings: EvaluationSettings,
    command: str,
    left_out: Sequence[str] = (),
    figures: Sequence[str] = (),
) -> str:
    """The report of a run, a function of what was measured: no clock, no machine.

    Args:
        records: The records to report.
        runs: Of the results file, what ``run`` in the records counts in.
        tasks: Of the results file: what the tasks consist of, by fingerprint.
        settings: Those of the run: which number of shots the few-shot table shows.
        command: What repeats it.
        left_out: What was asked for and not measured, a line each.
        figures: Names of picture files beside the report.

    Returns:
        Markdown.

    Raises:
        ValueError: If there are no records.

    Example:

        >>> record = dict(system="A", task="mine", protocol="full", settings={"probe": "mlp"}, seed=0, run=0)
        >>> record |= dict(metrics={"accuracy": 0.5}, seconds=1.0, task_fingerprint="b")
        >>> run = {"command": "python run.py", "date": "2024-01-01", "ran_on": "a CPU", "versions": {"torch": "2"}}
        >>> tasks = {"b": {"kind": "texts with labels", "train": 8, "test": 4, "classes": 2, "mean_words": 3.0}}
        >>> print(results_markdown([record], [run], tasks, EvaluationSettings(), "python run.py").splitlines()[0])
        # Evaluation
    """
    if not records:
        raise ValueError("There are no records to report: was every protocol left out?")
    cells = summarize_records(records)
    parts = ["# Evaluation", f"To repeat it:\n\n```bash\n{command}\n```", _ran_on(records, runs)]
    parts.append(_tasks({record["task"]: record["task_fingerprint"] for record in records}, tasks))
    if left_out:
        parts.append("Left out:\n\n" + "\n".join(f"- {escape(line)}" for line in left_out))
    for section in SECTIONS:
        if chosen := _cells_of(section, cells, settings):
            parts.append(_section(section, chosen))
        if section.protocol == "few_shot":
            parts += _curve([cell for cell in cells if cell.protocol == "few_shot"])
    if figures:
        parts.append("## Figures\n\n" + "\n\n".join(f"![{name}]({name})" for name in figures))
    return "\n\n".join(parts) + "\n"


def main_table(records: Sequence[Mapping[str, Any]], settings: EvaluationSettings) -> str:
    """The first table of the report, for the last screen of a run.

    Args:
        records: The records to report.
        settings: Those of the run.

    Returns:
        A heading and a table, without the papers' rows.

    Example:

        >>> record = dict(system="A", task="mine", protocol="full", settings={"probe": "mlp"}, seed=0)
        >>> print(main_table([record | dict(metrics={"accuracy": 0.5})], EvaluationSettings()))
        Full classification
        <BLANKLINE>
        | System | mine Acc |
        | --- | --- |
        | A | **50.00** |
    """
    cells = summarize_records(records)
    for section in SECTIONS:
        if chosen := _cells_of(section, cells, settings):
            return f"{section.title}\n\n{_table(section, chosen, paper=None)}"
    return ""


def _cells_of(section: Section, cells: Sequence[Cell], settings: EvaluationSettings) -> list[Cell]:
    chosen = [cell for cell in cells if cell.protocol == section.protocol]
    if section.protocol == "few_shot":  # a curve has more shots than the table shows
        chosen = [cell for cell in chosen if cell.settings["shots"] == settings.shots_of(cell.task)]
    return chosen


def _section(section: Section, cells: Sequence[Cell]) -> str:
    known = section.paper is not None and any(paper_task(cell.task) in section.paper.tasks for cell in cells)
    paper = section.paper if known else None
    spread = DEVIATION if section.spread == "std" else INTERVAL
    repeats = max(len(cell.seeds) for cell in cells)
    text = section.text.format_map(_settings_text(cells))
    text += f" Means of {repeats} repeats; {spread}." if repeats > 1 else " One repeat."
    notes = [
        text,
        f"Seeds: {_seeds(cells)}. Settings: {_all_settings(cells)}.",
    ]
    if paper is not None:
        notes.append(
            f"In italics the papers' own numbers ({paper.source}), on other sizes of data, splits and machines. "
            f"{paper.note}".strip()
        )
    return f"## {section.title}\n\n" + "\n\n".join([*notes[:2], _table(section, cells, paper), *notes[2:]])


def _table(section: Section, cells: Sequence[Cell], paper: PaperTable | None) -> str:
    if section.by_system:
        return table_by_system(cells, section.metrics, section.spread, paper)
    return table_by_task(cells, section.metrics, section.spread, paper, section.plain_digits)


def _curve(cells: Sequence[Cell]) -> list[str]:
    """A table a task, with the numbers of shots in the place of tasks, so that a row is a curve."""
    if len({cell.settings["shots"] for cell in cells}) < 2:
        return []
    parts = ["## Few-shot classification by examples per class", f"Accuracy in %; {DEVIATION}."]
    for task in dict.fromkeys(cell.task for cell in cells):
        by_shots = sorted((cell for cell in cells if cell.task == task), key=lambda cell: cell.settings["shots"])
        columns = [dataclasses.replace(cell, task=f"{cell.settings['shots']} per class") for cell in by_shots]
        parts += [f"### {escape(task)}", table_by_system(columns, ["accuracy"], "std", titles={"accuracy": ""})]
    return parts


def _settings_text(cells: Sequence[Cell]) -> dict[str, str]:
    """For each setting its values, with the tasks that they belong to where they differ."""
    texts = {}
    for name in dict.fromkeys(name for cell in cells for name in cell.settings):
        tasks: dict[str, list[str]] = {}
        for cell in cells:
            if cell.task not in tasks.setdefault(str(cell.settings.get(name, MISSING)), []):
                tasks[str(cell.settings.get(name, MISSING))].append(cell.task)
        texts[name] = (
            next(iter(tasks))
            if len(tasks) == 1
            else ", ".join(f"{value} ({', '.join(map(escape, names))})" for value, names in tasks.items())
        )
    return texts


def _all_settings(cells: Sequence[Cell]) -> str:
    return ", ".join(f"{name} {value}" for name, value in _settings_text(cells).items()) or "none"


def _seeds(cells: Sequence[Cell]) -> str:
    seeds = sorted({seed for cell in cells for seed in cell.seeds})
    together = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if together else ", ".join(map(str, seeds))


def _tasks(fingerprints: Mapping[str, str], tasks: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, fingerprint in fingerprints.items():
        task = tasks[fingerprint]
        numbers = [f"{task[field]:,}" if field in task else MISSING for field in ("train", "test", "classes")]
        chance = f"{196 * math.sqrt(0.25 / task['test']):.1f}"
        words = f"{task['mean_words']:,.0f}"
        rows.append((escape(name), task["kind"], *numbers, words, chance, fingerprint[:8]))
    header = ("Task", "Kind", "Train", "Test", "Classes", "Mean words", "Chance (points)", "SHA-256")
    meaning = (
        "Chance is half the 95 % confidence interval of an accuracy of 50 % on so many test examples: a smaller "
        "difference between two systems may be one of this test set only."
    )
    return f"{table(header, rows)}\n\n{meaning}\n\n{LENGTH}"


def _ran_on(records: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    """A line for each kind of machine and versions among the runs that these records came from."""
    used = [runs[number] for number in sorted({record["run"] for record in records})]
    lines: dict[str, list[str]] = {}
    for run in used:
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        lines.setdefault(f"{run['ran_on']}; {versions}", []).append(run["date"][:10])
    hours = sum(record["seconds"] for record in records) / 3600
    lines_text = "\n".join(f"- {what} ({dates[0]})" for what, dates in lines.items())
    systems = len({record["system"] for record in records})
    tasks = len({record["task"] for record in records})
    head = f"{len(records):,} measurements of {systems} systems on {tasks} tasks, {hours:.2f} hours in all, on:"
    return f"{head}\n\n{lines_text}"
