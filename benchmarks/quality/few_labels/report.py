"""The tables and the figure of few labels per class, from the records of run.py.

    python -m benchmarks.quality.few_labels.report --records output/few_labels.jsonl --out output/few_labels

A mean over the tasks is shown for systems that have all of them; choose tasks with --tasks.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.quality.few_labels.records import read_records
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import Summary, summarize
from experiments.report.figures import COLORS, CURVE_STYLE, LINES, MARKERS, save
from experiments.report.markdown_report import escape, format_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEAN = "**mean**"
TITLES = {  # of metrics, and their digits; None: a percentage
    "macro_f1": ("Macro F1", None),
    "accuracy": ("Accuracy", None),
    "log_loss": ("Log loss", 3),
    "expected_calibration_error": ("Expected calibration error", None),
    "fit_seconds": ("Seconds to fit, without embedding; of SetFit with its training", 2),
    "fit_cpu_seconds": ("The same in seconds of the processor", 2),
    "embedding_seconds": ("Seconds to embed what is fitted on, once", 2),
    "documents_per_second": ("Documents per second, embedding included", 1),
}
LEGEND = {  # readable names of systems
    "ours": "fit() with documents",
    "ours_without_documents": "fit() without documents",
    "ours_without_names": "fit() without names of labels",
    "probe": "linear probe",
    "two_way": "nearest neighbors",
    "tfidf": "word counts (TF-IDF)",
    "setfit": "SetFit",
    "name_cosine": "nearest name",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="+", required=True, help="Files of run.py.")
    parser.add_argument(
        "--out", type=Path, required=True, help="A folder for report.md, and the figure of each encoder."
    )
    parser.add_argument("--tasks", nargs="+", help="The only ones. Default: all.")
    parser.add_argument("--per_label", nargs="+", help="The only numbers of labels. Default: all.")
    options = parser.parse_args()
    records = [record for file in options.records for record in read_records(file)]
    frame = pd.DataFrame(records)
    for field, wanted in (("task", options.tasks), ("per_label", options.per_label)):
        frame = frame[frame[field].isin(wanted)] if wanted and len(frame) else frame
    if frame.empty:
        raise SystemExit(f"There are no records of {options.tasks or 'any task'} in {options.records}.")
    options.out.mkdir(parents=True, exist_ok=True)
    parts = []
    for encoder, mine in frame.groupby("encoder"):
        parts += [f"# {escape(str(encoder))}", *sections(mine)]
        save(partial(curves, mine), options.out / f"few_labels_{encoder}")
    (options.out / "report.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def summaries(frame: pd.DataFrame, metric: str) -> dict[tuple[str, str, str], Summary]:
    """Summaries over the draws of each task, system and number of labels; and over all tasks, for complete systems.

    The interval of the mean over tasks is that of independent means: it is about other draws, not about other tasks.
    """
    groups = frame.dropna(subset=[metric]).groupby(["task", "system", "per_label"], sort=False)[metric]
    found = {key: summarize(values.tolist()) for key, values in groups}
    tasks = frame["task"].unique()
    for system, per_label in dict.fromkeys((system, per_label) for _, system, per_label in found):
        parts = [found.get((task, system, per_label)) for task in tasks]
        if all(parts):
            found[MEAN, system, per_label] = Summary(
                mean=sum(part.mean for part in parts) / len(parts),
                std=math.nan,
                interval=math.hypot(*(part.interval for part in parts)) / len(parts),
                repeats=min(part.repeats for part in parts),
            )
    return found


def merged(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The records with a rival's settings (``setfit#max_steps=400``) as its defaults where only these were run.

    Also notes of the places where this is so.
    """
    base = frame["system"].str.partition("#")[0]
    kept = frame["system"] == frame["system"].groupby([frame["task"], frame["per_label"], base]).transform("min")
    frame = frame.assign(base=base)[kept]
    with_settings = frame[frame["system"] != frame["base"]].groupby(["system", "task", "per_label"]).groups
    notes = [f"{escape(name)} on {escape(task)} at {per_label}" for name, task, per_label in with_settings]
    return frame.assign(system=frame["base"]), notes


def sections(frame: pd.DataFrame) -> list[str]:
    """A table for each metric: a row per task and system, a column per number of labels."""
    frame, notes = merged(frame)
    counts = sorted(frame["per_label"].unique(), key=labels_per_class)
    sizes = [f"{escape(task)} {classes}" for task, classes in frame.groupby("task")["classes"].first().items()]
    draws = frame.groupby(["task", "system", "per_label"])["draw"].nunique()
    lines = [
        f"Classes: {', '.join(sizes)}. Columns: labeled examples per class. Means over the draws ± half of the 95 % "
        f"interval; {draws.min()} to {draws.max()} draws. A mean over the tasks stands where a system has all of them."
    ]
    if notes:
        lines.append(f"With other settings than the default: {'; '.join(notes)}.")
    for metric, (title, digits) in TITLES.items():
        if metric not in frame:
            continue
        found = summaries(frame, metric)
        rows = []
        for task in (MEAN, *frame["task"].unique()):
            for system in frame["system"].unique():
                of_counts = [found.get((task, system, count)) for count in counts]
                if any(of_counts):
                    name = task if task == MEAN else escape(task)
                    cells = [format_summary(summary, "interval", digits) for summary in of_counts]
                    rows.append((name, escape(system), *cells))
        lines += [f"## {title}{' (%)' if digits is None else ''}", table(("Task", "System", *counts), rows)]
    return lines


def curves(frame: pd.DataFrame) -> Figure:
    """Mean macro F1 over the tasks, and its interval, over the labels per class."""
    from matplotlib.figure import Figure

    frame, _ = merged(frame)
    means = {}
    for (task, system, per_label), summary in summaries(frame, "macro_f1").items():
        if task == MEAN:
            means[system, per_label] = summary
    counts = sorted({count for _, count in means}, key=labels_per_class)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    style = {name: value for name, value in CURVE_STYLE.items() if name not in ("elinewidth", "capsize")}
    for number, system in enumerate(dict.fromkeys(name for name, _ in means)):
        x = [place for place, count in enumerate(counts) if (system, count) in means]
        found = [means[system, counts[place]] for place in x]
        y = np.array([100 * summary.mean for summary in found])
        half = np.nan_to_num([100 * summary.interval for summary in found])  # NaN with a single draw
        color = COLORS[number % len(COLORS)]
        axis.plot(
            x,
            y,
            label=LEGEND.get(system, system),
            color=color,
            marker=MARKERS[number % len(MARKERS)],
            linestyle=LINES[number // len(COLORS)],
            **style,
        )
        axis.fill_between(x, y - half, y + half, color=color, alpha=0.15)
    axis.set_xticks(range(len(counts)), counts)
    axis.grid(color="#DDDDDD", linewidth=0.6)
    tasks = frame["task"].nunique()
    axis.set(xlabel="Labeled examples per class", ylabel=f"Macro F1 (%), mean of {tasks} task{'s' * (tasks > 1)}")
    axis.legend(frameon=False)
    return figure


def labels_per_class(count: str) -> float:
    return math.inf if count == "all" else int(count)


if __name__ == "__main__":
    main()
