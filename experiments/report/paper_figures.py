"""The papers' figures beside those of the package: citation, sweeps, redundancy and attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from ..papers_options import PaperSettings
from ..protocols.decoupled import PAPER_K, PAPER_TEMPERATURE
from ..protocols.length import CLASSIFIERS
from ..tasks.known_tasks import task_metric
from . import figures
from .bars import accuracy_bars, draw_bars, few_shot_bars
from .decoupled_tables import METRICS, by_k, by_temperature, neighbors_alone
from .figures import (
    COLORS,
    CURVE_STYLE,
    GRID,
    MARKERS,
    Draw,
    draw_curve,
    draw_legend,
    make_panels,
)
from .length_tables import length_curves
from .paper_results import REDUNDANCY, paper_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = tuple(name for name in REDUNDANCY.metrics if name != "all")
CITATION_METRICS = {"accuracy": "head of LRA", "cosine_accuracy": "cosine threshold"}


def sweep_curves(frame: pd.DataFrame, settings: PaperSettings) -> Figure | None:
    """The neighbors alone by k and by temperature: figure 2 of Liang et al. 2023, two panels for each system."""
    from matplotlib.ticker import NullLocator

    frame = neighbors_alone(frame[frame["protocol"] == "neighbors_sweep"])
    if frame.empty:
        return None
    systems = list(dict.fromkeys(frame["system"]))
    tasks = list(dict.fromkeys(frame["task"]))
    figure, axes = make_panels(2 * len(systems), 4.4, 3.4, per_row=2)
    labels = {"k": f"k, at T = {PAPER_TEMPERATURE:g}", "temperature": f"T, at k = {PAPER_K}"}
    panels = [(system, name) for system in systems for name in labels]
    for axis, (system, name) in zip(axes, panels, strict=True):
        mine = {"k": by_k, "temperature": by_temperature}[name](frame[frame["system"] == system])
        for number, task in enumerate(tasks):
            points = mine[mine["task"] == task]
            draw_curve(axis, list(points[name]), points, "std", number, f"{task} ({METRICS[task_metric(task)]})")
        axis.set_xscale("log")
        if name == "k":
            numbers = sorted(set(mine["k"]))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticks(numbers, [str(number) for number in numbers])
        axis.grid(**GRID)
        axis.set(title=system, xlabel=labels[name], ylabel="Neighbors alone (%)")
    draw_legend(figure, axes, frame["std"], "std")
    return figure


def citation_bars(frame: pd.DataFrame, settings: PaperSettings) -> Figure | None:
    """Accuracy of both ways to predict citations: DocSplit's figure 3."""
    frame = frame[frame["protocol"] == "citation"]
    return accuracy_bars(frame, CITATION_METRICS, "interval") if len(frame) else None


def attention_bars(frame: pd.DataFrame, settings: PaperSettings) -> Figure | None:
    """Mean attention weight by part of speech: SimLTE's figure 3, with one panel per task."""
    frame = frame[frame["protocol"] == "attention"]
    if frame.empty:
        return None
    tasks = list(dict.fromkeys(frame["task"]))
    width = max(4.0, 0.8 + 4 * (0.2 + 0.11 * frame["system"].nunique()))  # four groups of a bar per system
    figure, axes = make_panels(len(tasks), width, 3.0)
    for axis, task in zip(axes, tasks, strict=True):
        groups = {(task, metric): f"{metric}s" for metric in ("noun", "verb", "adjective", "other")}
        draw_bars(axis, frame, groups, "documents", 1000)
        axis.set(title=task, ylabel="Mean attention weight ($10^{-3}$)")
    draw_legend(figure, axes, frame["documents"], "documents")
    return figure


def redundancy_by_length(frame: pd.DataFrame, settings: PaperSettings) -> Figure | None:
    """R of nouns and verbs by the number of words in a text, beside the papers': a panel per task."""
    frame = frame[frame["protocol"] == "nouns_and_verbs"]
    if frame.empty:
        return None
    systems = list(dict.fromkeys(frame["system"]))
    tasks = list(dict.fromkeys(frame["task"]))
    figure, axes = make_panels(len(tasks), 3.6, 3.0)
    for axis, task in zip(axes, tasks, strict=True):
        for number, system in enumerate(systems):
            mine = frame[(frame["task"] == task) & (frame["system"] == system)].set_index("metric")
            present = [name for name in LENGTHS if name in mine.index]
            axis.errorbar(
                [LENGTHS.index(name) for name in present],
                mine["mean"][present],
                yerr=mine["documents"][present],
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
        axis.grid(**GRID)
        axis.set(title=task, xlabel="Words in the text", ylabel="R (nouns and verbs)", xlim=(-0.3, len(LENGTHS) - 0.7))
    # The limits ignore the error bars, which are as long as the axis for a length with only two texts.
    means = frame["mean"][frame["metric"].isin(LENGTHS)]
    printed = [number for numbers in REDUNDANCY.rows.values() for number in numbers if number is not None]
    for axis in axes:
        axis.set_ylim(1, max(*means, *printed) + 0.1)
    draw_legend(figure, axes, frame["documents"], "documents")
    return figure


FIGURES: Mapping[str, Draw] = {
    "few_shot": few_shot_bars,
    **figures.FIGURES,
    **{f"length_{classifier}": partial(length_curves, classifier) for classifier in CLASSIFIERS},
    "neighbors_sweep": sweep_curves,
    "citation": citation_bars,
    "redundancy": redundancy_by_length,
    "attention": attention_bars,
}
