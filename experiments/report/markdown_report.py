"""Write results.md: tables of results, and the command that repeats the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pandas as pd

from docsplit_hf.evaluation.systems import WORDS
from docsplit_hf.training.markdown import table

from ..evaluation.experiment import EvaluationSettings
from ..evaluation.protocols import BESIDE_PROBES
from ..evaluation.report import MISSING, TITLES, WORD_COUNTS, escape, ran_on
from ..evaluation.results import Summary, setting, summarize_records

Spread = Literal["std", "interval", "documents"]
Row = tuple[str, ...]
Records = Sequence[Mapping[str, Any]]
# Given names of tasks, returns additions to the table of data sets: a further row by task, and notes below it.
Describe = Callable[[Sequence[str]], tuple[Mapping[str, Row], Sequence[str]]]
SPREADS: dict[Spread, str] = {
    "std": "± is the standard deviation over the repeats",
    "interval": "± is half the 95 % confidence interval of the mean over the seeds (Student's t), on one and the same "
    "test set",
    "documents": "± is half the 95 % confidence interval over the documents (jackknife)",
}

NOISE = (
    "Noise is half the 95 % confidence interval of an accuracy of 50 % on so many test examples: a smaller difference "
    "between two systems may be one of this test set only."
)


class Printed(Protocol):
    """Published numbers to show beside measured ones."""

    source: str
    note: str

    def numbers(self, tasks: Sequence[str]) -> pd.DataFrame:
        """Columns: published ``system``, our ``task``, its published name ``known``, ``metric``, ``value`` or None."""


@dataclass(frozen=True)
class Section:
    """A section of the report: the records of one protocol."""

    protocol: str
    title: str
    text: str  # describes the measurement; settings in braces are filled in
    metrics: Row = ()  # the columns, in order
    spread: Spread = "interval"  # the meaning of ±
    printed: Printed | None = None  # published numbers to show beside the measured ones
    by_system: bool = True  # systems as rows and tasks as columns; False: a row for each task and system
    titles: Mapping[str, str] | None = None  # titles of metrics
    plain_digits: int | None = None  # digits of numbers that are not percentages
    layout: Callable[[pd.DataFrame, Records, Printed | None], str] | None = None  # makes another kind of table
    in_table: Row = ()  # settings that this table shows


SECTIONS = (
    Section(
        "full",
        "Full classification",
        f"Frozen features, the whole training set, probe `{{probe}}` ({WORD_COUNTS}). Accuracy and macro F1 in %.",
        ("accuracy", "macro_f1"),
    ),
    Section(
        "few_shot",
        "Few-shot classification",
        f"Frozen features, {{shots}} examples per class, probe `{{probe}}` ({WORD_COUNTS}). "
        "Accuracy and macro F1 in %.",
        ("accuracy", "macro_f1"),
        spread="std",
    ),
    Section(
        "half_documents",
        "Half-document retrieval",
        "Each text is split into two halves at random, sentence by sentence; given one, the other is looked for among "
        "all. In %.",
        ("recall@1", "recall@10", "mrr"),
        by_system=False,
    ),
)


def own_data(tasks: Sequence[str]) -> tuple[dict[str, Row], list[str]]:
    """Add no rows, and notes about the columns."""
    return {}, [WORDS, NOISE]


def results_markdown(
    records: Records,
    runs: Records,
    tasks: Mapping[str, Mapping[str, Any]],
    settings: EvaluationSettings,
    command: str,
    left_out: Sequence[str] = (),
    figures: Sequence[str] = (),
    preset: str = "",
    sections: Sequence[Section] = SECTIONS,
    data: Describe = own_data,
) -> str:
    """Write the report of a run in Markdown.

    Args:
        records, runs, tasks: The content of the results file.
        settings: The settings of the run.
        command: The command that repeats the run.
        left_out: A line for each measurement that was left out.
        figures: The file names of figures.
        preset: A line about the options.
        sections: The sections, in order.
        data: Makes additions to the table of data sets.
    """
    frame = summarize_records(records)
    parts = ["# Evaluation", f"To repeat it:\n\n```bash\n{command}\n```", ran_on(records, runs)]
    if preset:
        parts.append(preset)
    parts.append(task_table({record["task"]: record["task_fingerprint"] for record in records}, tasks, data))
    if left_out:
        parts.append("Left out:\n\n" + "\n".join(f"- {escape(line)}" for line in left_out))
    for section in sections:
        rows = _rows_of(section, frame, settings)
        if len(rows):
            parts.append(_section(section, rows, records))
        if section.protocol == "few_shot":
            parts += _curve(frame[frame["protocol"] == "few_shot"])
    if figures:
        parts.append("## Figures\n\n" + "\n\n".join(f"![{name}]({name})" for name in figures))
    return "\n\n".join(parts) + "\n"


def main_table(
    records: Records,
    tasks: Mapping[str, Mapping[str, Any]],
    settings: EvaluationSettings,
    sections: Sequence[Section] = SECTIONS,
) -> str:
    """The first table of the report without published numbers, to show at the end of a run."""
    frame = summarize_records(records)
    for section in sections:
        rows = _rows_of(section, frame, settings)
        if len(rows):
            return "\n\n".join([section.title, _table(section, rows, records, None)])
    return ""


def format_summary(summary: Summary | None, spread: Spread, plain_digits: int | None = None) -> str:
    """Format a mean, with its ± if there are repeats: a percentage with two digits, or a plain number."""
    if summary is None:
        return MISSING
    scale = 100 if plain_digits is None else 1
    digits = 2 if plain_digits is None else plain_digits
    mean = f"{scale * summary.mean:.{digits}f}"
    half_width = getattr(summary, spread)
    return mean if math.isnan(half_width) else f"{mean} ± {scale * half_width:.{digits}f}"


def with_text(frame: pd.DataFrame, spread: Spread, plain_digits: int | None = None, bold: Sequence[str] = ()) -> Any:
    """Add formatted numbers as the column ``text``; the best in each group of the columns ``bold`` is bold."""
    texts = [format_summary(row, spread, plain_digits) for row in frame.itertuples()]
    texts = pd.Series(texts, frame.index, dtype=object)
    if bold:
        best = frame.groupby(list(bold))["mean"].transform("max") == frame["mean"]
        texts = texts.where(~best, "**" + texts + "**")
    return frame.assign(text=texts)


def lay_out(frame: pd.DataFrame, rows: Mapping[str, str], columns: Mapping[str, Any], *by: str) -> str:
    """Make a table of the texts of a frame.

    Args:
        frame: A frame with a column ``text``.
        rows: Columns of the frame, with their titles: the table has a row for each combination of their values.
        columns: Titles of the table's columns, each with its value in the frame's columns ``by``, a tuple if several.
        *by: Columns of the frame.
    """
    row_names = list(frame[list(rows)].itertuples(index=False, name=None))
    column_names = list(zip(*(frame[name] for name in by), strict=True)) if len(by) > 1 else frame[by[0]]
    texts = {}
    for row_name, column_name, text in zip(row_names, column_names, frame["text"], strict=True):
        texts[row_name, column_name] = text
    lines = []
    for row_name in dict.fromkeys(row_names):
        lines.append((*row_name, *(texts.get((row_name, value), MISSING) for value in columns.values())))
    return table((*rows.values(), *columns), lines)


def table_by_system(
    frame: pd.DataFrame, metrics: Row, spread: Spread, printed: Printed | None = None, titles: Mapping = TITLES
) -> str:
    """Make a table of systems as rows and tasks as columns, as in the papers' tables 1 and 2.

    The best measured numbers are bold.
    """
    tasks = list(dict.fromkeys(frame["task"]))
    measured = [name for name in metrics if name in set(frame["metric"])]
    columns = {}
    for task in tasks:
        for name in measured:
            title = f"{escape(task)} {titles.get(name, name)}".strip()
            columns[title] = (task, name)
    ours = with_text(frame, spread, bold=("task", "metric"))
    ours = ours.assign(system=ours["system"].map(escape))
    frame = ours if printed is None else pd.concat([ours, in_italics(printed, tasks)])
    return lay_out(frame, {"system": "System"}, columns, "task", "metric")


def in_italics(printed: Printed, tasks: Sequence[str]) -> pd.DataFrame:
    """Rows of published numbers, to show below the measured ones."""
    frame = printed.numbers(tasks)
    texts = [MISSING if value is None else f"*{value:.2f}*" for value in frame["value"]]
    return frame.assign(system=[f"*{escape(name)}, paper*" for name in frame["system"]], text=texts)


def _table_by_task(section: Section, frame: pd.DataFrame, printed: Printed | None, titles: Mapping[str, str]) -> str:
    """Make a table with a row for each task and system, a column for each metric; published rows follow each task."""
    columns = {titles.get(name, name): name for name in section.metrics if name in set(frame["metric"])}
    ours = with_text(frame, section.spread, section.plain_digits)
    parts = []
    for task, of_task in ours.groupby("task", sort=False):
        parts.append(of_task.assign(task=escape(task), system=of_task["system"].map(escape)))
        published = None if printed is None else in_italics(printed, [task])
        if published is not None and len(published):
            title = "*" + published["known"] + ", paper*"
            parts.append(published.assign(task=title, text=published["text"].str.strip("*")))
    return lay_out(pd.concat(parts), {"task": "Task", "system": "System"}, columns, "metric")


def task_table(
    fingerprints: Mapping[str, str], tasks: Mapping[str, Mapping[str, Any]], data: Describe = own_data
) -> str:
    """Make the table of data sets; ``fingerprints`` by name, ``tasks`` by fingerprint (older ones have no words)."""
    further_rows, notes = data(list(fingerprints))
    rows = []
    for name, fingerprint in fingerprints.items():
        task = tasks[fingerprint]
        fields = ("train", "test", "documents", "classes")
        sizes = [f"{task[field]:,}" if field in task else MISSING for field in fields]
        words = [MISSING] * 3
        if "words" in task:
            words = [f"{task['words'][statistic]:,.0f}" for statistic in ("mean", "median", "max")]
        noise = f"{196 * math.sqrt(0.25 / task['test']):.1f}"
        rows.append((escape(name), task["kind"], *sizes, *words, noise, fingerprint[:8]))
        if name in further_rows:
            rows.append(further_rows[name])
    header = ("Task", "Kind", "Train", "Test", "Documents", "Classes", "Mean words", "Median words", "Max words")
    length = "`max_length` is the longest input of encoders, in tokens; word counts and endpoints do not know it."
    return "\n\n".join([table((*header, "Noise (points)", "SHA-256"), rows), " ".join(notes), length])


def _rows_of(section: Section, frame: pd.DataFrame, settings: EvaluationSettings) -> pd.DataFrame:
    """The rows of a summary that a section shows."""
    chosen = frame[frame["protocol"] == section.protocol]
    if section.protocol == "few_shot" and len(chosen):  # a curve has more shots than the table shows
        chosen = chosen[setting(chosen, "shots") == chosen["task"].map(settings.shots_of)]
    return chosen


def _section(section: Section, frame: pd.DataFrame, records: Records) -> str:
    """Write a section: title, explanations, table."""
    printed = section.printed
    if printed is not None and not len(printed.numbers(list(frame["task"]))):
        printed = None
    is_additional = [settings.get("probe") in BESIDE_PROBES for settings in frame["settings"]]
    settings = _settings_text(frame[[not additional for additional in is_additional]])
    for name in section.in_table:
        settings.pop(name, None)
    repeats = max(map(len, frame["seeds"]))
    spread = SPREADS[section.spread]
    means = f"Means of {repeats} repeats; {spread}." if repeats > 1 else "One repeat."
    if section.spread == "documents" and repeats == 1 and frame["documents"].notna().any():
        means = f"{spread}."
    shown = ", ".join(f"{name} {value}" for name, value in settings.items()) or "none"
    parts = [f"## {section.title}", f"{section.text.format_map(settings)} {means}"]
    parts += [f"Seeds: {_seeds(frame)}. Settings: {shown}.", _table(section, frame, records, printed)]
    if printed is not None:
        parts.append(
            f"In italics the papers' own numbers ({printed.source}), on other sizes of data, splits and machines. "
            f"{printed.note}".strip()
        )
    return "\n\n".join(parts)


def _table(section: Section, frame: pd.DataFrame, records: Records, printed: Printed | None) -> str:
    """Make the table of a section."""
    titles = section.titles or TITLES
    if section.layout is not None:
        return section.layout(frame, records, printed)
    if section.by_system:
        return table_by_system(frame, section.metrics, section.spread, printed, titles)
    return _table_by_task(section, frame, printed, titles)


def _curve(frame: pd.DataFrame) -> list[str]:
    """Make a table for each task, with the numbers of shots as columns, so that each row is a curve."""
    frame = frame.assign(shots=setting(frame, "shots"))
    if frame["shots"].nunique() < 2:
        return []
    parts = ["## Few-shot classification by examples per class", f"Accuracy in %; {SPREADS['std']}."]
    for task, of_task in frame.groupby("task", sort=False):
        of_task = of_task.sort_values("shots", kind="stable")
        columns = of_task.assign(task=[f"{count} per class" for count in of_task["shots"]])
        parts += [f"### {escape(task)}", table_by_system(columns, ("accuracy",), "std", titles={"accuracy": ""})]
    return parts


def _settings_text(frame: pd.DataFrame) -> dict[str, str]:
    """The values of each setting, with their tasks if the values differ."""
    names: dict[str, None] = {}
    for settings in frame["settings"]:
        names |= dict.fromkeys(settings)
    texts = {}
    for name in names:
        values = [str(settings.get(name, MISSING)) for settings in frame["settings"]]
        tasks_of_value = frame["task"].map(escape).groupby(values, sort=False).unique()
        if len(tasks_of_value) > 1:
            texts[name] = ", ".join(f"{value} ({', '.join(tasks)})" for value, tasks in tasks_of_value.items())
        else:
            texts[name] = ", ".join(tasks_of_value.index)
    return texts


def _seeds(frame: pd.DataFrame) -> str:
    """List the seeds of all repeats."""
    seeds = sorted(set().union(*frame["seeds"]))
    is_range = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if is_range else ", ".join(map(str, seeds))
