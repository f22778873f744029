"""Tables of results in the papers' layout, with the papers' own numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd

from ...training.markdown import table
from .paper_results import PaperTable, paper_task
from .summary import Cell, Summary

Spread = Literal["std", "interval", "documents"]
MISSING = "–"
TITLES = {
    "accuracy": "Acc",
    "macro_f1": "F1",
    "matthews_correlation": "MCC",
    "cosine_accuracy": "Acc, cosine threshold",
    "average_accuracy": "average",
    "best_pairs_accuracy": "best pairs",
    "soft_maximum_accuracy": "soft maximum",
    "average_centered_accuracy": "average, centered",
    "best_pairs_centered_accuracy": "best pairs, centered",
    "soft_maximum_centered_accuracy": "soft maximum, centered",
    "words_accuracy": "words",
    "passages_and_words_accuracy": "passages and words",
    "mrr": "MRR",
}
# Not shares of texts, so no percentages: by name, digits after the point.
PLAIN_NUMBERS = {"within": 2, "between": 2, "noun": 4, "verb": 4, "adjective": 4, "other": 4}


def format_summary(metric: str, summary: Summary | None, spread: Spread, plain_digits: int | None = None) -> str:
    """A mean and its ±, if there were repeats: percentages with two digits, as in the papers, or plain numbers."""
    if summary is None:
        return MISSING
    digits = PLAIN_NUMBERS.get(metric) if plain_digits is None else plain_digits
    scale, digits = (100, 2) if digits is None else (1, digits)
    width = getattr(summary, spread)
    return f"{scale * summary.mean:.{digits}f}" + ("" if math.isnan(width) else f" ± {scale * width:.{digits}f}")


def table_by_system(
    cells: Sequence[Cell],
    metrics: Sequence[str],
    spread: Spread,
    paper: PaperTable | None = None,
    titles: Mapping[str, str] = TITLES,
) -> str:
    """Systems as rows, tasks as columns: the layout of the papers' tables 1 and 2. The best of ours are in bold."""
    entries = pd.DataFrame(
        [
            (cell.system, cell.task, name, cell.metrics[name].mean, format_summary(name, cell.metrics[name], spread))
            for cell in cells
            for name in metrics
            if name in cell.metrics
        ],
        columns=["system", "task", "metric", "mean", "text"],
    )
    best = entries.groupby(["task", "metric"])["mean"].transform("max") == entries["mean"]
    entries.loc[best, "text"] = "**" + entries["text"] + "**"
    measured = [name for name in metrics if name in set(entries["metric"])]
    columns = pd.MultiIndex.from_product([dict.fromkeys(cell.task for cell in cells), measured])
    wide = entries.pivot_table(index="system", columns=["task", "metric"], values="text", aggfunc="last")
    wide = wide.reindex(index=dict.fromkeys(cell.system for cell in cells), columns=columns).fillna(MISSING)
    header = ("System", *(f"{escape(task)} {titles.get(metric, metric)}".strip() for task, metric in columns))
    rows = [(escape(system), *texts) for system, *texts in wide.itertuples(name=None)]
    return table(header, [*rows, *_paper_rows(paper, columns)])


def _paper_rows(paper: PaperTable | None, columns: pd.MultiIndex) -> list[tuple[str, ...]]:
    known = {task: paper_task(task) for task in columns.levels[0]}
    if paper is None or not any(name in paper.tasks for name in known.values()):
        return []
    rows = []
    for system in paper.rows:
        numbers = {task: paper.of(system, name) for task, name in known.items() if name in paper.tasks}
        shown = (numbers.get(task, {}).get(metric) for task, metric in columns)
        cells = (MISSING if number is None else f"*{number:.2f}*" for number in shown)
        rows.append((f"*{escape(system)}, paper*", *cells))
    return rows


def table_by_task(
    cells: Sequence[Cell],
    metrics: Sequence[str],
    spread: Spread,
    paper: PaperTable | None = None,
    plain_digits: int | None = None,
) -> str:
    """A row per task and system, a column per metric: for what has many metrics. The papers' rows follow each task."""
    metrics = [name for name in metrics if any(name in cell.metrics for cell in cells)]
    rows = []
    for task in dict.fromkeys(cell.task for cell in cells):
        for cell in cells:
            if cell.task == task:
                values = (format_summary(name, cell.metrics.get(name), spread, plain_digits) for name in metrics)
                rows.append((escape(task), escape(cell.system), *values))
        known = paper_task(task)
        for system in paper.rows if paper is not None and known in paper.tasks else ():
            numbers = paper.of(system, known)
            values = (f"{numbers[name]:.2f}" if name in numbers else MISSING for name in metrics)
            rows.append((f"*{known}, paper*", f"*{escape(system)}, paper*", *values))
    return table(("Task", "System", *(TITLES.get(name, name) for name in metrics)), rows)


def escape(name: str) -> str:
    """A name, on one line, without what Markdown reads as the end of a cell or as emphasis."""
    name = " ".join(name.split())
    return "".join(f"\\{character}" if character in "\\|*_`<>[]" else character for character in name)
