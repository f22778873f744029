"""Tables of results in the papers' layout, with the papers' own numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from ...training.markdown import table
from .paper_results import PaperTable, paper_task
from .summary import Cell, Summary

Spread = Literal["std", "interval"]
MISSING = "–"
TITLES = {
    "accuracy": "Acc",
    "macro_f1": "F1",
    "cosine_accuracy": "Acc, cosine threshold",
    "classifier_accuracy": "Acc, classifier alone",
    "knn_accuracy": "Acc, neighbors alone",
    "mrr": "MRR",
}
# Not shares of texts, so no percentages: by name, digits after the point.
PLAIN_NUMBERS = {"within": 2, "between": 2, "noun": 4, "verb": 4, "adjective": 4, "other": 4}


def format_summary(metric: str, summary: Summary | None, spread: Spread, plain_digits: int | None = None) -> str:
    """A mean and what it is uncertain by.

    Args:
        metric: The metric.
        summary: Its summary, None where it was not measured.
        spread: ``"std"`` or ``"interval"``: what stands behind the ±. Nothing does after a single repeat.
        plain_digits: Digits of a number that is no percentage. None: as ``PLAIN_NUMBERS`` says, or a percentage.

    Returns:
        Percentages with two digits, as in the papers; other numbers as they are.

    Example:

        >>> format_summary("accuracy", Summary(0.5, 0.01, 0.02, 3), "interval")
        '50.00 ± 2.00'
    """
    if summary is None:
        return MISSING
    digits = PLAIN_NUMBERS.get(metric) if plain_digits is None else plain_digits
    scale, digits = (100, 2) if digits is None else (1, digits)
    width = summary.std if spread == "std" else summary.interval
    return f"{scale * summary.mean:.{digits}f}" + ("" if math.isnan(width) else f" ± {scale * width:.{digits}f}")


def table_by_system(
    cells: Sequence[Cell],
    metrics: Sequence[str],
    spread: Spread,
    paper: PaperTable | None = None,
    titles: Mapping[str, str] = TITLES,
) -> str:
    """Systems as rows, tasks as columns: the layout of the papers' tables 1 and 2. The best of ours are in bold.

    Args:
        cells: One for each system and task.
        metrics: The columns of a task.
        spread: What stands behind the ±.
        paper: The papers' table; its rows stand below ours, in the columns of the tasks that it has.
        titles: What the metrics are called behind the name of the task.

    Returns:
        Markdown.

    Example:

        >>> cells = [Cell("A", "mine", "full", {}, {"accuracy": Summary(0.5, 0, 0.01, 3)}, (0, 1, 2))]
        >>> print(table_by_system(cells, ["accuracy"], "interval"))
        | System | mine Acc |
        | --- | --- |
        | A | **50.00 ± 1.00** |
    """
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    columns = [(task, metric) for task in tasks for metric in metrics if _measured(cells, metric)]
    by_place = {(cell.system, cell.task): cell for cell in cells}
    best = {
        (task, metric): max(cell.metrics[metric].mean for cell in cells if cell.task == task and metric in cell.metrics)
        for task, metric in columns
        if any(cell.task == task and metric in cell.metrics for cell in cells)
    }
    rows = []
    for system in dict.fromkeys(cell.system for cell in cells):
        row = [escape(system)]
        for task, metric in columns:
            cell = by_place.get((system, task))
            summary = None if cell is None else cell.metrics.get(metric)
            text = format_summary(metric, summary, spread)
            row.append(f"**{text}**" if summary is not None and summary.mean == best[task, metric] else text)
        rows.append(tuple(row))
    header = ("System", *(f"{escape(task)} {titles.get(metric, metric)}".strip() for task, metric in columns))
    return table(header, [*rows, *(_paper_rows(paper, columns) if paper else [])])


def table_by_task(
    cells: Sequence[Cell],
    metrics: Sequence[str],
    spread: Spread,
    paper: PaperTable | None = None,
    plain_digits: int | None = None,
) -> str:
    """A row for each task and system, a column for each metric: for what has many metrics.

    Args:
        cells: One for each system and task.
        metrics: The columns, those that were measured.
        spread: What stands behind the ±.
        paper: The papers' table; its rows stand below those of the same task.
        plain_digits: As for ``format_summary``.

    Returns:
        Markdown.

    Example:

        >>> cells = [Cell("A", "mine", "half_documents", {}, {"recall@1": Summary(0.5, 0, 0.01, 3)}, (0, 1, 2))]
        >>> print(table_by_task(cells, ["recall@1"], "interval"))
        | Task | System | recall@1 |
        | --- | --- | --- |
        | mine | A | 50.00 ± 1.00 |
    """
    metrics = [metric for metric in metrics if _measured(cells, metric)]
    rows = []
    for task in dict.fromkeys(cell.task for cell in cells):
        for cell in cells:
            if cell.task == task:
                values = (format_summary(name, cell.metrics.get(name), spread, plain_digits) for name in metrics)
                rows.append((escape(task), escape(cell.system), *values))
        known = paper_task(task)
        if paper is not None and known in paper.tasks:
            for system in paper.rows:
                numbers = paper.of(system, known)
                values = (f"{numbers[name]:.2f}" if name in numbers else MISSING for name in metrics)
                rows.append((f"*{known}, paper*", f"*{escape(system)}, paper*", *values))
    return table(("Task", "System", *(TITLES.get(name, name) for name in metrics)), rows)


def _measured(cells: Sequence[Cell], metric: str) -> bool:
    return any(metric in cell.metrics for cell in cells)


def _paper_rows(paper: PaperTable, columns: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    known = {task: paper_task(task) for task, _ in columns}
    if not any(name in paper.tasks for name in known.values()):
        return []
    rows = []
    for system in paper.rows:
        row = [f"*{escape(system)}, paper*"]
        for task, metric in columns:
            name = known[task]
            numbers = paper.of(system, name) if name in paper.tasks else {}
            row.append(f"*{numbers[metric]:.2f}*" if metric in numbers else MISSING)
        rows.append(tuple(row))
    return rows


def escape(name: str) -> str:
    """A name as a cell of a table, whatever a user calls it.

    Args:
        name: A system or a task.

    Returns:
        The name, on one line, without what Markdown reads as the end of a cell or as emphasis.

    Example:

        >>> print(escape("a|b_c"))
        a\\|b\\_c
    """
    name = " ".join(name.split())
    return "".join(f"\\{character}" if character in "\\|*_`<>[]" else character for character in name)
