"""What figures share: colors, panels, lines, a legend below them, and how they are written."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .summary import Cell, Summary
from .tables import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colors for color-blind readers too (Okabe and Ito, 2008), gray in place of their yellow, which is faint as a line.
# Markers and hatches tell them apart in print too.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "//", "..", "\\\\", "x", "+", "-", "o")
STYLE = {
    "svg.hashsalt": "docsplit_hf",  # the same picture gives the same file
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.6,
}
CURVE_STYLE = {
    "markersize": 5,
    "markeredgecolor": "black",
    "markeredgewidth": 0.4,
    "linewidth": 1.4,
    "elinewidth": 0.9,
    "capsize": 2,
}
PANELS_PER_ROW = 3
SPREADS = {
    "std": "Error bars: standard deviation over the repeats",
    "interval": "Error bars: 95 % confidence interval of the mean over the seeds",
    "documents": "Error bars: 95 % confidence interval over the documents",
}


def check_matplotlib() -> None:
    """Say what to install where figures cannot be drawn: before the hours of measuring, not after them."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            "Figures need matplotlib: pip install matplotlib, which the extra [experiments] brings, or do without "
            "them, --no_figures."
        )


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Write a figure as PNG and SVG, the same bytes for the same figure; ``path`` is without the ending."""
    check_matplotlib()
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = draw()
        figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def make_panels(count: int, width: float, height: float, per_row: int = PANELS_PER_ROW) -> tuple[Figure, list[Axes]]:
    """A figure of panels of equal size, in inches, in rows as even as possible."""
    from matplotlib.figure import Figure  # not pyplot, whose state outlives the figure

    rows = math.ceil(count / per_row)
    columns = math.ceil(count / rows)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def draw_legend(figure: Figure, axes: list[Axes], cells: Sequence[Cell], spread: Spread) -> None:
    """One for all panels, below them, in rows as even as the width allows; the figure grows by its height."""
    by_label = {}
    for axis in axes:  # a system need not be in every panel
        handles, labels = axis.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles, strict=True))
    shown = any(not math.isnan(getattr(summary, spread)) for cell in cells for summary in cell.metrics.values())
    title = SPREADS[spread] if shown else None
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
    axis: Axes, places: Sequence[float], summaries: Sequence[Summary], spread: Spread, number: int, label: str
) -> None:
    """One line with error bars, in percent; ``number`` decides on its color, marker and dashes."""
    axis.errorbar(
        places,
        [100 * summary.mean for summary in summaries],
        yerr=[100 * getattr(summary, spread) for summary in summaries],
        label=label,
        color=COLORS[number % len(COLORS)],
        marker=MARKERS[number % len(MARKERS)],
        linestyle=LINES[number // len(COLORS) % len(LINES)],
        **CURVE_STYLE,
    )


def names_in(cells: Sequence[Cell], field: str) -> list[str]:
    """The tasks or systems of cells, in order, each once."""
    return list(dict.fromkeys(getattr(cell, field) for cell in cells))
