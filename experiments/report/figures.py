"""Draw figures of results as PNG and SVG: curves in panels, with a legend below."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from docsplit_hf.storage.inside_folder import write_file

from ..evaluation.experiment import EvaluationSettings
from ..evaluation.results import setting
from .markdown_report import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[[pd.DataFrame, EvaluationSettings], "Figure | None"]  # None: there is nothing to draw

# Colors that color-blind readers can distinguish (Okabe and Ito, 2008), with gray in place of yellow, which is faint as
# a line. Markers distinguish systems in black and white.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
STYLE = {
    "svg.hashsalt": "docsplit_hf",  # makes SVG files reproducible
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}
CURVE_STYLE = {
    "markersize": 5, "markeredgecolor": "black", "markeredgewidth": 0.4, "linewidth": 1.4, "elinewidth": 0.9,
    "capsize": 2,
}  # fmt: skip
PANELS_PER_ROW = 3
GRID = {"color": "#DDDDDD", "linewidth": 0.6}
SPREADS = {
    "std": "Error bars: standard deviation over the repeats",
    "interval": "Error bars: 95 % confidence interval of the mean over the seeds",
    "documents": "Error bars: 95 % confidence interval over the documents",
}


def save(draw: Callable[[], Figure | None], path: Path) -> bool:
    """Write a figure, if there is one, as PNG and SVG, reproducible to the byte; ``path`` has no ending."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure = draw()
        if figure is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
                drawn = io.BytesIO()
                figure.savefig(drawn, format=kind, dpi=150, metadata=metadata)
                write_file(path.with_suffix(f".{kind}"), drawn.getvalue())
    return figure is not None


def make_panels(count: int, width: float, height: float, per_row: int = PANELS_PER_ROW) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels of equal size, in inches, in rows as even as possible."""
    from matplotlib.figure import Figure  # pyplot would keep the figure in memory

    rows = math.ceil(count / per_row)
    columns = math.ceil(count / rows)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def draw_legend(figure: Figure, axes: list[Axes], spreads: Iterable[float], spread: Spread) -> None:
    """Add one legend below all panels, in even rows; the figure grows by its height."""
    by_label = {}
    for axis in axes:  # some systems may be in some panels only
        handles, labels = axis.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles, strict=True))
    title = SPREADS[spread] if not all(map(math.isnan, spreads)) else None
    label_width = 0.085 * max(map(len, by_label))  # inches
    width, height = figure.get_size_inches()
    width = max(width, 0.9 + label_width)
    rows = math.ceil(len(by_label) / max(1, int(width / (0.7 + label_width))))
    figure.set_size_inches(width, height + 0.22 * (rows + (title is not None)))
    figure.legend(
        by_label.values(), by_label, loc="outside lower center", ncols=math.ceil(len(by_label) / rows), frameon=False,
        title=title, title_fontsize=9,
    )  # fmt: skip


def draw_curve(
    axis: Axes, places: Sequence[float], points: pd.DataFrame, spread: Spread, number: int, label: str
) -> None:
    """Draw a line with error bars, in percent; ``number`` chooses color, marker and dashes."""
    axis.errorbar(
        places,
        100 * points["mean"],
        yerr=100 * points[spread],
        label=label,
        color=COLORS[number % len(COLORS)],
        marker=MARKERS[number % len(MARKERS)],
        linestyle=LINES[number // len(COLORS) % len(LINES)],
        **CURVE_STYLE,
    )


def few_shot_curves(frame: pd.DataFrame, settings: EvaluationSettings) -> Figure | None:
    """Draw accuracy over the number of training examples per class, with one panel per task: DocSplit's figure 2."""
    from matplotlib.ticker import FixedLocator, NullLocator

    frame = frame[(frame["protocol"] == "few_shot") & (frame["metric"] == "accuracy")]
    frame = frame.assign(shots=setting(frame, "shots"))
    tasks = list(dict.fromkeys(frame["task"]))
    systems = list(dict.fromkeys(frame["system"]))
    if frame["shots"].nunique() < 2:
        return None
    figure, axes = make_panels(len(tasks), 4.4 if len(tasks) == 1 else 4.0, 3.2)
    for axis, task in zip(axes, tasks, strict=True):
        mine = frame[frame["task"] == task].sort_values("shots", kind="stable")
        for number, system in enumerate(systems):
            points = mine[mine["system"] == system]
            # Systems are shifted by a factor, so that their error bars do not overlap.
            shift = 1.025 ** (number - (len(systems) - 1) / 2)
            draw_curve(axis, [shots * shift for shots in points["shots"]], points, "std", number, system)
        shots = sorted(set(mine["shots"]))
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(shots))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticklabels([str(number) for number in shots])
        axis.grid(**GRID)
        axis.set(title=task, xlabel="Training examples per class", ylabel="Accuracy (%)")
    draw_legend(figure, axes, frame["std"], "std")
    return figure


FIGURES: Mapping[str, Draw] = {"few_shot_curve": few_shot_curves}


def save_figures(
    frame: pd.DataFrame, settings: EvaluationSettings, folder: str | Path, figures: Mapping[str, Draw] = FIGURES
) -> list[str]:
    """Draw the figures for which a summary of records has data; returns the names of the PNG files."""
    return [f"{name}.png" for name, draw in figures.items() if save(partial(draw, frame, settings), Path(folder, name))]
