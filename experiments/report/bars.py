"""Bars for each system, grouped by task and metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from ..evaluation.experiment import EvaluationSettings
from ..evaluation.results import setting
from .figures import COLORS, GRID, draw_legend, make_panels
from .markdown_report import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HATCHES = ("", "//", "..", "\\\\", "x", "+", "-", "o")  # distinguish systems in black and white


def draw_bars(
    axis: Axes, frame: pd.DataFrame, groups: Mapping[tuple[str, str], str], spread: Spread, scale: float
) -> None:
    """Draw a bar for each system in each group of task and metric; ``groups`` has the labels."""
    systems = list(dict.fromkeys(frame["system"]))
    width = 0.84 / len(systems)
    frame = frame.drop_duplicates(["system", "task", "metric"])  # keeps the first one
    for number, system in enumerate(systems):
        mine = frame[frame["system"] == system].set_index(["task", "metric"])
        present = mine.loc[[group for group in groups if group in mine.index]]
        shift = (number - (len(systems) - 1) / 2) * width
        color = COLORS[number % len(COLORS)]
        axis.bar(
            [list(groups).index(group) + shift for group in present.index],
            scale * present["mean"],
            width * 0.92,
            yerr=scale * present[spread],  # NaN, after one repeat, draws nothing
            label=system,
            color=color,
            edgecolor="white" if color == "#000000" else "black",  # also the color of the hatch
            hatch=HATCHES[number % len(HATCHES)],
            linewidth=0.5,
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"},
        )
    axis.set_ylim(bottom=0)
    axis.set_xticks(range(len(groups)), groups.values())
    axis.grid(axis="y", **GRID)


def accuracy_bars(frame: pd.DataFrame, metrics: Mapping[str, str], spread: Spread) -> Figure:
    """Draw a bar for each system, grouped by task and metric; ``metrics``: their names in the labels of the groups."""
    systems = frame["system"].nunique()
    groups = {}
    for task in dict.fromkeys(frame["task"]):
        for metric, name in metrics.items():
            groups[task, metric] = f"{task}\n{name}".strip()
    longest = max(len(line) for label in groups.values() for line in label.split("\n"))
    per_group = max(0.5 + 0.17 * systems, 0.3 + 0.09 * longest)
    narrowest = 4.4 if systems < 5 else 5.5  # inches that the legend needs
    figure, axes = make_panels(1, max(narrowest, 0.8 + len(groups) * per_group), 3.2)
    draw_bars(axes[0], frame, groups, spread, 100)
    axes[0].set_ylabel("Accuracy (%)")
    axes[0].set_ylim(0, min(axes[0].get_ylim()[1], 102))  # an interval over two seeds may exceed 100
    draw_legend(figure, axes, frame[spread], spread)
    return figure


def few_shot_bars(frame: pd.DataFrame, settings: EvaluationSettings) -> Figure | None:
    """Draw the accuracy in the protocol ``few_shot``, with the number of examples per class in ``settings``."""
    frame = frame[frame["protocol"] == "few_shot"]
    frame = frame[setting(frame, "shots") == frame["task"].map(settings.shots_of)]
    return accuracy_bars(frame, {"accuracy": ""}, "std") if len(frame) else None
