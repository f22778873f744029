"""The tables of Liang et al. 2023: the nine rows, the retrieval vectors, and the sweep over k and T."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...text.paper_tasks import task_metric
from ...training.markdown import table
from ..protocols.decoupled import PAPER_K, PAPER_TEMPERATURE, PARTS
from ..protocols.settings import CALIBRATED, FIXED, ORACLE
from .paper_results import PaperTable, paper_task
from .summary import Cell, Summary
from .tables import MISSING, TITLES, escape, format_summary

VARIANTS = {"base": "base", "triplet_loss": "TL", "decoupled": "TL + D"}
# Not in the table, where they are rows, or told in the text.
SHOWN_AS_ROWS = ("variant", "retrieval_pooling", "neighbors", "k", "temperature", "weight", "best")
CHOSEN = {
    CALIBRATED: "calibrated",
    FIXED: "fixed",
    ORACLE: "oracle: lambda of the best result on the test set",
}


def nine_rows(cells: Sequence[Cell], others: Sequence[Cell], paper: PaperTable | None) -> str:
    """Each variant by its classifier, its neighbors, and mixed; below, probes on frozen features and the paper's rows.

    ``others`` are all cells of the run: those of the protocol ``full`` on the same tasks are shown.
    """
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    rows = []
    for system in dict.fromkeys(cell.system for cell in cells):
        for variant, name in VARIANTS.items():
            mine = [cell for cell in cells if cell.system == system and cell.settings["variant"] == variant]
            start = f"{escape(system)}: {name}"
            rows.append((start, *_numbers(mine, tasks, "classifier")))
            protocols = dict.fromkeys(cell.settings["neighbors"] for cell in mine)
            for protocol in protocols:
                chosen = [cell for cell in mine if cell.settings["neighbors"] == protocol]
                if protocol != ORACLE or FIXED not in protocols:  # whose k and T are the same
                    rows.append((f"{start}, KNN ({protocol})", *_numbers(chosen, tasks, "knn")))
                rows.append((f"{start}, mixed ({CHOSEN[protocol]})", *_numbers(chosen, tasks, "mixture")))
    probes = [cell for cell in others if cell.protocol == "full" and cell.task in tasks]
    for system in dict.fromkeys(cell.system for cell in probes):
        mine = [cell for cell in probes if cell.system == system]
        rows.append((f"{escape(system)}: a probe, not fine-tuned", *_numbers(mine, tasks, "mixture")))
    written = table(_header(tasks), [*rows, *_paper_rows(paper, tasks)])
    return f"{written}\n\n{_mixture_against_parts(cells)}"


def retrieval_vectors(cells: Sequence[Cell], others: Sequence[Cell], paper: PaperTable | None) -> str:
    """What neighbors are looked for with, by the neighbors alone and mixed."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        key = cell.system, cell.settings["retrieval_pooling"], cell.settings["neighbors"]
        groups.setdefault(key, []).append(cell)
    rows = []
    for (system, pooling, protocol), mine in groups.items():
        start = f"{escape(system)}: {pooling}"
        rows.append((f"{start}, KNN ({protocol})", *_numbers(mine, tasks, "knn")))
        rows.append((f"{start}, mixed ({CHOSEN[protocol]})", *_numbers(mine, tasks, "mixture")))
    return table(_header(tasks), [*rows, *_paper_rows(paper, tasks)])


def neighbors_sweep(cells: Sequence[Cell], others: Sequence[Cell], paper: PaperTable | None) -> str:
    """The neighbors alone: by k at the paper's temperature, and by temperature at the paper's k."""
    points = {f"k {cell.settings['k']}": _point(cell) for cell in by_k(cells)}
    points |= {f"T {cell.settings['temperature']:g}": _point(cell) for cell in by_temperature(cells)}
    rows = []
    for system, task in dict.fromkeys((cell.system, cell.task) for cell in cells):
        mine = {_point(cell): cell for cell in cells if (cell.system, cell.task) == (system, task)}
        numbers = (_number(mine.get(point), "knn") for point in points.values())
        rows.append((escape(task), escape(system), TITLES[task_metric(task)], *numbers))
    return table(("Task", "System", "Metric", *points), rows)


def _point(cell: Cell) -> tuple[int, float]:
    return cell.settings["k"], cell.settings["temperature"]


def by_k(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of a sweep at the paper's temperature, by k."""
    chosen = [cell for cell in cells if cell.settings["temperature"] == PAPER_TEMPERATURE]
    return sorted(chosen, key=lambda cell: cell.settings["k"])


def by_temperature(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of a sweep at the paper's k, by temperature."""
    chosen = [cell for cell in cells if cell.settings["k"] == PAPER_K]
    return sorted(chosen, key=lambda cell: cell.settings["temperature"])


def part_summary(cell: Cell, part: str) -> Summary | None:
    """Of the classifier, the neighbors or the mixture, in the metric of the task."""
    return cell.metrics.get(f"{PARTS[part]}{task_metric(cell.task)}")


def _header(tasks: Sequence[str]) -> tuple[str, ...]:
    return ("System", *(f"{escape(task)} {TITLES[task_metric(task)]}" for task in tasks))


def _numbers(cells: Sequence[Cell], tasks: Sequence[str], part: str) -> list[str]:
    by_task: Mapping[str, Cell] = {cell.task: cell for cell in cells}
    return [_number(by_task.get(task), part) for task in tasks]


def _number(cell: Cell | None, part: str) -> str:
    if cell is None:
        return MISSING
    return format_summary(task_metric(cell.task), part_summary(cell, part), "std")


def _paper_rows(paper: PaperTable | None, tasks: Sequence[str]) -> list[tuple[str, ...]]:
    known = {task: paper_task(task) for task in tasks}
    if paper is None or not any(name in paper.tasks for name in known.values()):
        return []
    rows = []
    for row in paper.rows:
        numbers = [paper.of(row, name)["task_metric"] if name in paper.tasks else None for name in known.values()]
        cells = (MISSING if number is None else f"*{number:.2f}*" for number in numbers)
        rows.append((f"*{escape(row)}, paper*", *cells))
    return rows


def _mixture_against_parts(cells: Sequence[Cell]) -> str:
    """In how many cells the mixture is as good as the better of its parts, for each way to choose k, T and lambda."""
    lines = []
    for protocol in dict.fromkeys(cell.settings["neighbors"] for cell in cells):
        gaps = []
        for cell in (cell for cell in cells if cell.settings["neighbors"] == protocol):
            classifier, knn, mixture = (part_summary(cell, part) for part in ("classifier", "knn", "mixture"))
            gaps.append(100 * (mixture.mean - max(classifier.mean, knn.mean)))
        as_good = sum(gap >= 0 for gap in gaps)
        lines.append(
            f"- {protocol}: in {as_good} of {len(gaps)} cells the mixture is at least as good as the better of "
            f"classifier and neighbors; the differences are from {min(gaps):+.2f} to {max(gaps):+.2f} points, "
            f"{sum(gaps) / len(gaps):+.2f} in the mean."
        )
    return "\n".join(lines)
