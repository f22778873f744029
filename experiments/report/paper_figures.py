"""The papers' figures: few-shot curves and bars, citation, attention by part of speech; as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...text.paper_tasks import task_metric
from ..protocols.decoupled import PAPER_K, PAPER_TEMPERATURE
from ..protocols.length import CLASSIFIERS
from ..protocols.settings import EvaluationSettings
from .decoupled_tables import by_k, by_temperature, part_summary
from .length_figure import length_curves
from .panels import COLORS, CURVE_STYLE, HATCHES, MARKERS, draw_curve, draw_legend, make_panels, names_in, save
from .paper_results import REDUNDANCY, paper_task
from .summary import Cell
from .tables import TITLES, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LENGTHS = tuple(name for name in REDUNDANCY.metrics if name != "all")
CITATION_METRICS = {"accuracy": "head of LRA", "cosine_accuracy": "cosine threshold"}
DRAWN = (
    "few_shot",
    "curve",
    "length",
    "neighbors_sweep",
    "citation",
    "redundancy",
    "attention",
)  # the protocols whose results save_figures draws


def save_figures(cells: Sequence[Cell], settings: EvaluationSettings, folder: str | Path) -> list[str]:
    """Draw the figures of the papers that the results give, as PNG and SVG; returns the names of the PNG files."""
    few_shot = [cell for cell in cells if cell.protocol == "few_shot"]
    figures: dict[str, Callable[[], Figure]] = {}
    if at_shots := [cell for cell in few_shot if cell.settings["shots"] == settings.shots_of(cell.task)]:
        figures["few_shot"] = lambda: accuracy_bars(at_shots, {"accuracy": ""}, "std")
    if len({cell.settings["shots"] for cell in few_shot}) > 1:
        figures["few_shot_curve"] = lambda: curves(few_shot)
    for classifier in CLASSIFIERS:
        if by_length := [
            cell
            for cell in cells
            if cell.protocol == "length" and (cell.settings["classifier"], cell.settings["shots"]) == (classifier, None)
        ]:
            figures[f"length_{classifier}"] = partial(length_curves, by_length)
    if sweep := [cell for cell in cells if cell.protocol == "neighbors_sweep"]:
        figures["neighbors_sweep"] = lambda: sweep_curves(sweep)
    if citation := [cell for cell in cells if cell.protocol == "citation"]:
        figures["citation"] = lambda: accuracy_bars(citation, CITATION_METRICS, "interval")
    if nouns_and_verbs := [cell for cell in cells if cell.protocol == "nouns_and_verbs"]:
        figures["redundancy"] = lambda: redundancy_by_length(nouns_and_verbs)
    if attention := [cell for cell in cells if cell.protocol == "attention"]:
        figures["attention"] = lambda: attention_bars(attention)
    for name, draw in figures.items():
        save(draw, Path(folder) / name)
    return [f"{name}.png" for name in figures]


def curves(cells: Sequence[Cell]) -> Figure:
    """Accuracy over the number of training examples per class: DocSplit's figure 2, with one panel per task."""
    from matplotlib.ticker import FixedLocator, NullLocator

    tasks, systems = names_in(cells, "task"), names_in(cells, "system")
    figure, axes = make_panels(len(tasks), 4.4 if len(tasks) == 1 else 4.0, 3.2)
    for axis, task in zip(axes, tasks, strict=True):
        mine = [cell for cell in cells if cell.task == task]
        for number, system in enumerate(systems):
            points = sorted(
                (cell.settings["shots"], cell.metrics["accuracy"]) for cell in mine if cell.system == system
            )
            # Points of different systems stand a little apart, so that error bars can be told from one another.
            shift = 1.025 ** (number - (len(systems) - 1) / 2)
            places, summaries = [shots * shift for shots, _ in points], [summary for _, summary in points]
            draw_curve(axis, places, summaries, "std", number, system)
        shots = sorted({cell.settings["shots"] for cell in mine})
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(shots))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticklabels([str(number) for number in shots])
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set(title=task, xlabel="Training examples per class", ylabel="Accuracy (%)")
    draw_legend(figure, axes, cells, "std")
    return figure


def sweep_curves(cells: Sequence[Cell]) -> Figure:
    """The neighbors alone by k and by temperature: figure 2 of Liang et al. 2023, two panels for each system."""
    from matplotlib.ticker import NullLocator

    systems, tasks = names_in(cells, "system"), names_in(cells, "task")
    figure, axes = make_panels(2 * len(systems), 4.4, 3.4, per_row=2)
    labels = {"k": f"k, at T = {PAPER_TEMPERATURE:g}", "temperature": f"T, at k = {PAPER_K}"}
    panels = [(system, name) for system in systems for name in labels]
    for axis, (system, name) in zip(axes, panels, strict=True):
        mine = [cell for cell in cells if cell.system == system]
        for number, task in enumerate(tasks):
            points = [cell for cell in {"k": by_k, "temperature": by_temperature}[name](mine) if cell.task == task]
            summaries = [part_summary(cell, "knn") for cell in points]
            places, label = [cell.settings[name] for cell in points], f"{task} ({TITLES[task_metric(task)]})"
            draw_curve(axis, places, summaries, "std", number, label)
        axis.set_xscale("log")
        if name == "k":
            numbers = sorted({cell.settings["k"] for cell in by_k(mine)})
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticks(numbers, [str(number) for number in numbers])
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set(title=system, xlabel=labels[name], ylabel="Neighbors alone (%)")
    draw_legend(figure, axes, cells, "std")
    return figure


def accuracy_bars(cells: Sequence[Cell], metrics: Mapping[str, str], spread: Spread) -> Figure:
    """One bar per system, grouped by task and metric: few-shot classification, and DocSplit's figure 3.

    ``metrics`` maps each metric to what it is called beside the task.
    """
    tasks, systems = names_in(cells, "task"), names_in(cells, "system")
    groups = {(task, metric): f"{task}\n{name}".strip() for task in tasks for metric, name in metrics.items()}
    longest = max(len(line) for label in groups.values() for line in label.split("\n"))
    per_group = max(0.5 + 0.17 * len(systems), 0.3 + 0.09 * longest)
    narrowest = 4.4 if len(systems) < 5 else 5.5  # inches; the legend needs some
    figure, axes = make_panels(1, max(narrowest, 0.8 + len(groups) * per_group), 3.2)
    _grouped_bars(axes[0], cells, systems, groups, spread, 100)
    axes[0].set_ylabel("Accuracy (%)")
    axes[0].set_ylim(0, min(axes[0].get_ylim()[1], 102))  # an interval over two seeds may reach beyond what there is
    draw_legend(figure, axes, cells, spread)
    return figure


def attention_bars(cells: Sequence[Cell]) -> Figure:
    """Mean attention weight by part of speech: SimLTE's figure 3, with one panel per task."""
    tasks, systems = names_in(cells, "task"), names_in(cells, "system")
    figure, axes = make_panels(len(tasks), max(4.0, 0.8 + 4 * (0.2 + 0.11 * len(systems))), 3.0)
    for axis, task in zip(axes, tasks, strict=True):
        groups = {(task, metric): f"{metric}s" for metric in ("noun", "verb", "adjective", "other")}
        _grouped_bars(axis, cells, systems, groups, "documents", 1000)
        axis.set(title=task, ylabel="Mean attention weight ($10^{-3}$)")
    draw_legend(figure, axes, cells, "documents")
    return figure


def redundancy_by_length(cells: Sequence[Cell]) -> Figure:
    """R of nouns and verbs by the number of words in a text, beside the papers': a panel per task."""
    tasks, systems = names_in(cells, "task"), names_in(cells, "system")
    figure, axes = make_panels(len(tasks), 3.6, 3.0)
    for axis, task in zip(axes, tasks, strict=True):
        for number, system in enumerate(systems):
            metrics = next((cell.metrics for cell in cells if (cell.system, cell.task) == (system, task)), {})
            present = [(place, metrics[name]) for place, name in enumerate(LENGTHS) if name in metrics]
            axis.errorbar(
                [place for place, _ in present],
                [summary.mean for _, summary in present],
                yerr=[summary.documents for _, summary in present],
                label=system,
                color=COLORS[number % len(COLORS)],
                marker=MARKERS[number % len(MARKERS)],
                **CURVE_STYLE,
            )
        if (known := paper_task(task)) in REDUNDANCY.tasks:
            printed = REDUNDANCY.of("R", known)
            papers = [printed.get(name, math.nan) for name in LENGTHS]  # a gap where nothing certain is printed
            axis.plot(papers, label="paper", color="#777777", marker="x", linestyle="--")
        axis.set_xticks(range(len(LENGTHS)), [name.replace("more than ", "> ") for name in LENGTHS])
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set(
            title=task,
            xlabel="Words in the text",
            ylabel="R (nouns and verbs)",
            xlim=(-0.3, len(LENGTHS) - 0.7),
        )
    # Not by the error bars, which are as long as the axis where there are two texts of a length.
    means = [summary.mean for cell in cells for name, summary in cell.metrics.items() if name in LENGTHS]
    printed = [number for numbers in REDUNDANCY.rows.values() for number in numbers if number is not None]
    for axis in axes:
        axis.set_ylim(1, max(*means, *printed) + 0.1)
    draw_legend(figure, axes, cells, "documents")
    return figure


def _grouped_bars(
    axis: Axes,
    cells: Sequence[Cell],
    systems: list[str],
    groups: Mapping[tuple[str, str], str],  # labels by task and metric
    spread: Spread,
    scale: float,
) -> None:
    metrics = {(cell.system, cell.task): cell.metrics for cell in reversed(cells)}  # the first one counts
    width = 0.84 / len(systems)
    for number, system in enumerate(systems):
        summaries = [metrics.get((system, task), {}).get(metric) for task, metric in groups]
        shift = (number - (len(systems) - 1) / 2) * width
        present = [(group + shift, summary) for group, summary in enumerate(summaries) if summary]
        color = COLORS[number % len(COLORS)]
        axis.bar(
            [place for place, _ in present],
            [scale * summary.mean for _, summary in present],
            width * 0.92,
            yerr=[scale * getattr(summary, spread) for _, summary in present],  # NaN, after one repeat, draws nothing
            label=system,
            color=color,
            edgecolor="white" if color == "#000000" else "black",  # black bars hatch in white, or it would not be seen
            hatch=HATCHES[number % len(HATCHES)],
            linewidth=0.5,
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"},
        )
    axis.set_ylim(bottom=0)
    axis.set_xticks(range(len(groups)), groups.values())
    axis.grid(axis="y", color="#DDDDDD", linewidth=0.6)
