"""The picture of a report: how close the texts of two periods are to the examples, and what they were answered by."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .watch_report import WatchReport

THEN, NOW = "#0072B2", "#E69F00"  # blue and orange of Okabe and Ito (2008): for color-blind readers too
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "docsplit_hf"}
MOST_LABELS = 20  # bars that can be read
LABEL_WIDTH = 28  # characters
BINS = 20


def save_picture(report: WatchReport, path: str | Path) -> None:
    """Draw a report, in the format that the path ends with."""
    try:
        import matplotlib
        from matplotlib.figure import Figure  # not pyplot, whose state outlives the figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The picture needs matplotlib: pip install matplotlib, which the extra [experiments] brings."
        ) from error
    with matplotlib.rc_context(STYLE):
        height = max(3.2, 1.2 + 0.34 * min(len(report.labels), MOST_LABELS))
        figure = Figure(figsize=(10, height), layout="constrained")
        left, right = figure.subplots(1, 2)
        _closeness(left, report)
        _labels(right, report)
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        figure.suptitle(textwrap.fill(report.verdict, 110), fontsize=10)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def _closeness(axis: Axes, report: WatchReport) -> None:
    now, then = report.closeness
    edges = np.histogram_bin_edges(np.concatenate([now, then]), BINS)
    for values, color, line in ((then, THEN, "--"), (now, NOW, "-")):
        options = {"bins": edges, "weights": np.full(len(values), 100 / max(len(values), 1)), "color": color}
        axis.hist(values, alpha=0.35, **options)
        axis.hist(values, histtype="step", linewidth=1.6, linestyle=line, **options)
        if len(values):
            axis.axvline(values.mean(), color=color, linestyle=line, linewidth=1)
    axis.set(title="How close texts are to the examples", ylabel="Texts (%)")
    axis.set_xlabel("Mean cosine of the 5 nearest examples (lines: means)")


def _labels(axis: Axes, report: WatchReport) -> None:
    ranked = sorted(report.labels.items(), key=lambda item: -((item[1].now or 0) + (item[1].then or 0)))
    shown = dict(ranked[:MOST_LABELS])
    places = np.arange(len(shown))
    bars = (
        ("then", f"then: {report.earlier:,} {report.against}", -0.2, THEN, "//"),
        ("now", f"now: {report.texts:,} texts", 0.2, NOW, ""),
    )
    for name, label, shift, color, hatch in bars:
        shares = [100 * (getattr(change, name) or 0) for change in shown.values()]
        style = {"color": color, "hatch": hatch, "edgecolor": "black", "linewidth": 0.5}
        axis.barh(places + shift, shares, 0.38, label=label, **style)
    axis.set_yticks(places, [_written(name) for name in shown])
    axis.invert_yaxis()
    some = f", top {MOST_LABELS} of {len(ranked)}" if len(ranked) > MOST_LABELS else ""
    axis.set(title=f"Labels they were answered by{some}", xlabel="Texts (%)")


def _written(name: str) -> str:
    cut = name if len(name) <= LABEL_WIDTH else f"{name[: LABEL_WIDTH - 3]}..."
    return cut.replace("$", r"\$")  # which would begin a formula
