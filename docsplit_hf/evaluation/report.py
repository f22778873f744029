"""Write results.md: a table for each protocol, and the command that repeats the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..training.markdown import table
from .results import setting, summarize_records

Records = Sequence[Mapping[str, Any]]

MISSING = "–"
WORDS = "Words are those of a document, of training and test together; of Chinese, characters."
WORD_COUNTS = "of word counts a linear support vector machine"
# The title of each section, and its text. The protocol ``curve`` adds records to ``few_shot``.
SECTIONS = {
    "full": ("Full classification", f"Frozen features, the whole training set, a probe ({WORD_COUNTS})."),
    "few_shot": ("Few-shot classification", f"Frozen features, examples per class, a probe ({WORD_COUNTS})."),
    "half_documents": (
        "Half-document retrieval",
        "Each text is split into two halves at random, sentence by sentence; given one, the other is looked for among "
        "all.",
    ),
}
TITLES = {"accuracy": "Acc", "macro_f1": "F1", "mrr": "MRR"}
NOT_SHOWN = "matthews_correlation"
SPREAD = "In %; ± is the standard deviation over the repeats."
LEVELS = "Levels are those of the tree of labels, the first at the top: parents of predicted labels against right ones."


def results_markdown(
    records: Records,
    runs: Records,
    tasks: Mapping[str, Mapping[str, Any]],
    command: str,
    left_out: Sequence[str] = (),
) -> str:
    """Write the report of a run in Markdown.

    Args:
        records, runs, tasks: The content of the results file.
        command: The command that repeats the run.
        left_out: A line for each measurement that was left out.
    """
    parts = ["# Evaluation", f"To repeat it:\n\n```bash\n{command}\n```", ran_on(records, runs)]
    parts.append(_task_table(records, tasks))
    if left_out:
        parts.append("Left out:\n\n" + "\n".join(f"- {escape(line)}" for line in left_out))
    return "\n\n".join([*parts, *_sections(records)]) + "\n"


def main_table(records: Records) -> str:
    """The first section of the report, to show at the end of a run."""
    return next(iter(_sections(records)), "")


def escape(name: str) -> str:
    """Put a name on one line, and escape Markdown's special characters."""
    name = " ".join(name.split())
    return "".join(f"\\{character}" if character in "\\|*_`<>[]" else character for character in name)


def ran_on(records: Records, runs: Records) -> str:
    """List the machines that measured these records, with their versions of libraries."""
    first_dates: dict[str, str] = {}
    for number in sorted({record["run"] for record in records}):
        run = runs[number]
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        first_dates.setdefault(f"{run['ran_on']}; {versions}", run["date"][:10])
    lines = "\n".join(f"- {machine} ({date})" for machine, date in first_dates.items())
    hours = sum(record["seconds"] for record in records) / 3600
    systems = len({record["system"] for record in records})
    tasks = len({record["task"] for record in records})
    head = f"{len(records):,} measurements of {systems} systems on {tasks} tasks, {hours:.2f} hours in all, on:"
    return f"{head}\n\n{lines}"


def _task_table(records: Records, tasks: Mapping[str, Mapping[str, Any]]) -> str:
    """Make the table of data sets."""
    rows = []
    for name, fingerprint in {record["task"]: record["task_fingerprint"] for record in records}.items():
        task = tasks[fingerprint]
        sizes = [f"{task[size]:,}" if size in task else MISSING for size in ("train", "test", "classes")]
        words = f"{task['words']['median']:,.0f}"
        rows.append((escape(name), task["kind"], *sizes, words, fingerprint[:8]))
    header = ("Task", "Kind", "Train", "Test", "Classes", "Median words", "SHA-256")
    return "\n\n".join([table(header, rows), WORDS])


def _sections(records: Records) -> list[str]:
    """Write a section for each protocol that was measured."""
    frame = summarize_records(records)
    sections = []
    for protocol, (title, text) in SECTIONS.items():
        rows = frame[frame["protocol"] == protocol]
        if len(rows):
            levels = f" {LEVELS}" if rows["metric"].str.startswith("level_").any() else ""
            sections.append(f"## {title}\n\n{text} {SPREAD}{levels}\n\n{_table(rows)}")
    return sections


def _table(frame: pd.DataFrame) -> str:
    """Make a table with a row for each task, number of examples per class, and system."""
    frame = frame[frame["metric"] != NOT_SHOWN]
    frame = frame.assign(shots=setting(frame, "shots")).sort_values("shots", kind="stable")
    has_shots = frame["shots"].notna().any()
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for task in dict.fromkeys(frame["task"]):
        for row in frame[frame["task"] == task].itertuples():
            shots = [str(row.shots)] if has_shots else []
            cells.setdefault((escape(task), *shots, escape(row.system)), {})[row.metric] = _percent(row.mean, row.std)
    metrics = list(dict.fromkeys(frame["metric"]))
    lines = [(*names, *(found.get(metric, MISSING) for metric in metrics)) for names, found in cells.items()]
    shots = ["Examples per class"] if has_shots else []
    return table(("Task", *shots, "System", *(_title(metric) for metric in metrics)), lines)


def _title(metric: str) -> str:
    """The title of a column: ``level_1_accuracy`` is "level 1 Acc"."""
    level, _, name = metric.removeprefix("level_").partition("_")
    return f"level {level} {TITLES[name]}" if metric.startswith("level_") else TITLES.get(metric, metric)


def _percent(mean: float, std: float) -> str:
    """Format a mean in percent, with its standard deviation if there are repeats."""
    text = f"{100 * mean:.2f}"
    return text if math.isnan(std) else f"{text} ± {100 * std:.2f}"
