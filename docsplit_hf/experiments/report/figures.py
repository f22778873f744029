"""The papers' figures: few-shot curves and bars, citation, attention by part of speech; as PNG and SVG."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocols.settings import EvaluationSettings
from .summary import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that all eyes tell apart (Okabe and Ito, 2008), grey in the place of their yellow, which is faint as a line.
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
PANELS_PER_ROW = 3
CITATION_METRICS = {"accuracy": "head of LRA", "cosine_accuracy": "cosine threshold"}
SPREADS = {
    "std": "Error bars: standard deviation over the draws",
    "interval": "Error bars: 95 % confidence interval of the mean over the seeds",
}


DRAWN = ("few_shot", "curve", "citation", "attention")  # the protocols whose results save_figures draws


def check_matplotlib() -> None:
    """Say what to install where figures cannot be drawn: before the hours of measuring, not after them.

    Raises:
        ModuleNotFoundError: If matplotlib is not installed.

    Example:

        >>> check_matplotlib()
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            "Figures need matplotlib: pip install matplotlib, which the extra [experiments] brings, or do without "
            "them, --no_figures."
        )


def save_figures(cells: Sequence[Cell], settings: EvaluationSettings, folder: str | Path) -> list[str]:
    """Draw whatever of the papers' figures the results give.

    Args:
        cells: Of all protocols.
        settings: Those of the run: which number of shots the few-shot bars show.
        folder: Where the files go: ``<figure>.png`` and ``<figure>.svg``.

    Returns:
        The names of the PNG files.

    Raises:
        ModuleNotFoundError: If matplotlib is not installed.

    Example:

        >>> save_figures([], EvaluationSettings(), "no/such/folder")
        []
    """
    few_shot = [cell for cell in cells if cell.protocol == "few_shot"]
    figures: dict[str, Callable[[], Figure]] = {}
    if at_shots := [cell for cell in few_shot if cell.settings["shots"] == settings.shots_of(cell.task)]:
        figures["few_shot"] = lambda: accuracy_bars(at_shots, {"accuracy": ""}, "std")
    if len({cell.settings["shots"] for cell in few_shot}) > 1:
        figures["few_shot_curve"] = lambda: curves(few_shot)
    if citation := [cell for cell in cells if cell.protocol == "citation"]:
        figures["citation"] = lambda: accuracy_bars(citation, CITATION_METRICS, "interval")
    if attention := [cell for cell in cells if cell.protocol == "attention"]:
        figures["attention"] = lambda: attention_bars(attention)
    for name, draw in figures.items():
        save(draw, Path(folder) / name)
    return [f"{name}.png" for name in figures]


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Write a figure as PNG and SVG, the same bytes for the same figure.

    Args:
        draw: Draws it.
        path: Without the ending.

    Raises:
        ModuleNotFoundError: If matplotlib is not installed.

    Example:

        >>> import tempfile
        >>> from matplotlib.figure import Figure
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(Figure, Path(folder) / "empty")
        ...     sorted(file.name for file in Path(folder).iterdir())
        ['empty.png', 'empty.svg']
    """
    check_matplotlib()
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = draw()
        figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def curves(cells: Sequence[Cell]) -> Figure:
    """Accuracy over the number of training examples per class: DocSplit's figure 2, a panel a task.

    Args:
        cells: Of the protocol ``few_shot``, at several shots.

    Returns:
        The figure. Error bars are the standard deviation over the draws.

    Example:

        >>> from docsplit_hf.experiments.report.summary import summarize
        >>> cells = [Cell("A", "B", "few_shot", {"shots": n}, {"accuracy": summarize([n / 9])}, (0,)) for n in (1, 5)]
        >>> len(curves(cells).axes)
        1
    """
    from matplotlib.ticker import FixedLocator, NullLocator

    tasks, systems = _names(cells, "task"), _names(cells, "system")
    figure, axes = _panels(len(tasks), 4.4 if len(tasks) == 1 else 4.0, 3.2)
    for axis, task in zip(axes, tasks, strict=True):
        mine = [cell for cell in cells if cell.task == task]
        for number, system in enumerate(systems):
            points = sorted(
                (cell.settings["shots"], cell.metrics["accuracy"]) for cell in mine if cell.system == system
            )
            # Points of different systems stand a little apart, so that error bars can be told from one another.
            shift = 1.025 ** (number - (len(systems) - 1) / 2)
            axis.errorbar(
                [shots * shift for shots, _ in points],
                [100 * summary.mean for _, summary in points],
                yerr=[100 * summary.std for _, summary in points],
                label=system,
                color=COLORS[number % len(COLORS)],
                marker=MARKERS[number % len(MARKERS)],
                linestyle=LINES[number // len(COLORS) % len(LINES)],
                markersize=5,
                markeredgecolor="black",
                markeredgewidth=0.4,
                linewidth=1.4,
                elinewidth=0.9,
                capsize=2,
            )
        shots = sorted({cell.settings["shots"] for cell in mine})
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(shots))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticklabels([str(number) for number in shots])
        axis.set_title(task)
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set_xlabel("Training examples per class")
        axis.set_ylabel("Accuracy (%)")
    _legend(figure, axes, _spread_shown(cells, "std"))
    return figure


def accuracy_bars(cells: Sequence[Cell], metrics: Mapping[str, str], spread: str) -> Figure:
    """A bar a system, grouped by task and metric: few-shot classification, and DocSplit's figure 3.

    Args:
        cells: One for each system and task.
        metrics: The metrics, and what they are called beside the task.
        spread: ``"std"`` or ``"interval"``: the error bars.

    Returns:
        The figure.

    Example:

        >>> from docsplit_hf.experiments.report.summary import summarize
        >>> cells = [Cell("A", "B", "few_shot", {}, {"accuracy": summarize([0.5, 0.6])}, (0, 1))]
        >>> len(accuracy_bars(cells, {"accuracy": ""}, "std").axes)
        1
    """
    tasks, systems = _names(cells, "task"), _names(cells, "system")
    groups = {(task, metric): f"{task}\n{name}".strip() for task in tasks for metric, name in metrics.items()}
    longest = max(len(line) for label in groups.values() for line in label.split("\n"))
    per_group = max(0.5 + 0.17 * len(systems), 0.3 + 0.09 * longest)
    narrowest = 4.4 if len(systems) < 5 else 5.5  # inches; the legend needs some
    figure, axes = _panels(1, max(narrowest, 0.8 + len(groups) * per_group), 3.2)
    values = [
        [None if (cell := _find(cells, system, task)) is None else cell.metrics.get(metric) for task, metric in groups]
        for system in systems
    ]
    _grouped_bars(axes[0], systems, list(groups.values()), values, spread, 100)
    axes[0].set_ylabel("Accuracy (%)")
    axes[0].set_ylim(0, min(axes[0].get_ylim()[1], 102))  # an interval over two seeds may reach beyond what there is
    _legend(figure, axes, _spread_shown(cells, spread))
    return figure


def attention_bars(cells: Sequence[Cell]) -> Figure:
    """Mean attention weight by part of speech: SimLTE's figure 3, a panel a task.

    Args:
        cells: Of the protocol ``attention``.

    Returns:
        The figure.

    Example:

        >>> from docsplit_hf.experiments.report.summary import summarize
        >>> weights = dict.fromkeys(("noun", "verb", "adjective", "other"), summarize([0.01]))
        >>> len(attention_bars([Cell("A", "B", "attention", {}, weights, (0,))]).axes)
        1
    """
    tasks, systems = _names(cells, "task"), _names(cells, "system")
    groups = ("noun", "verb", "adjective", "other")
    figure, axes = _panels(len(tasks), max(4.0, 0.8 + 4 * (0.2 + 0.11 * len(systems))), 3.0)
    for axis, task in zip(axes, tasks, strict=True):
        found = [_find(cells, system, task) for system in systems]
        values = [[None if cell is None else cell.metrics.get(group) for group in groups] for cell in found]
        _grouped_bars(axis, systems, ["nouns", "verbs", "adjectives", "others"], values, "interval", 1000)
        axis.set_title(task)
        axis.set_ylabel("Mean attention weight ($10^{-3}$)")
    _legend(figure, axes, _spread_shown(cells, "interval"))
    return figure


def _grouped_bars(axis: Axes, systems: list[str], groups: Sequence[str], values, spread: str, scale: float) -> None:
    """``values[system][group]``: summaries, None where there is none."""
    width = 0.84 / len(systems)
    for number, system in enumerate(systems):
        places = [group + (number - (len(systems) - 1) / 2) * width for group in range(len(groups))]
        present = [(place, summary) for place, summary in zip(places, values[number], strict=True) if summary]
        axis.bar(
            [place for place, _ in present],
            [scale * summary.mean for _, summary in present],
            width * 0.92,
            yerr=[scale * getattr(summary, spread) for _, summary in present],  # NaN, after one repeat, draws nothing
            label=system,
            color=COLORS[number % len(COLORS)],
            # Black bars hatch in white, or the hatch would not be seen.
            edgecolor="white" if COLORS[number % len(COLORS)] == "#000000" else "black",
            hatch=HATCHES[number % len(HATCHES)],
            linewidth=0.5,
            error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"},
        )
    axis.set_ylim(bottom=0)
    axis.set_xticks(range(len(groups)), groups)
    axis.grid(axis="y", color="#DDDDDD", linewidth=0.6)


def _panels(count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure  # not pyplot, whose state outlives the figure

    rows = math.ceil(count / PANELS_PER_ROW)
    columns = math.ceil(count / rows)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _legend(figure: Figure, axes: list[Axes], spread: str | None) -> None:
    """One for all panels, below them, in rows as even as the width allows; the figure grows by its height."""
    by_label = {}
    for axis in axes:  # a system need not be in every panel
        handles, labels = axis.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles, strict=True))
    width, height = figure.get_size_inches()
    width = max(width, 0.9 + 0.085 * max(map(len, by_label)))
    most = max(1, int(width / (0.7 + 0.085 * max(map(len, by_label)))))
    rows = math.ceil(len(by_label) / most)
    columns = math.ceil(len(by_label) / rows)
    figure.set_size_inches(width, height + 0.22 * (rows + (spread is not None)))
    title = None if spread is None else SPREADS[spread]
    figure.legend(
        by_label.values(), by_label, loc="outside lower center", ncols=columns, frameon=False,
        title=title, title_fontsize=9,
    )  # fmt: skip


def _spread_shown(cells: Sequence[Cell], spread: str) -> str | None:
    return spread if any(len(cell.seeds) > 1 for cell in cells) else None


def _names(cells: Sequence[Cell], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(cell, field) for cell in cells))


def _find(cells: Sequence[Cell], system: str, task: str) -> Cell | None:
    return next((cell for cell in cells if (cell.system, cell.task) == (system, task)), None)
