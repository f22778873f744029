"""The tables and the figure of few labels per class, from the records of run.py.

    python benchmarks/few_labels/report.py --records output/few_labels.jsonl --out output/few_labels

A mean over the tasks stands where a system has all of them: --tasks leaves some out.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))  # for few_labels

from few_labels.records import read_records

from docsplit_hf.evaluation.figures import COLORS, CURVE_STYLE, LINES, MARKERS, save
from docsplit_hf.evaluation.markdown_report import escape, format_summary
from docsplit_hf.evaluation.results import Summary, summarize
from docsplit_hf.training.markdown import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEAN = "**mean**"
TITLES = {  # of a metric, and its digits where it is no percentage
    "macro_f1": ("Macro F1", None),
    "accuracy": ("Accuracy", None),
    "log_loss": ("Log loss", 3),
    "expected_calibration_error": ("Expected calibration error", None),
    "fit_seconds": ("Seconds to fit, without embedding; of SetFit with its training", 2),
    "fit_cpu_seconds": ("The same in seconds of the processor", 2),
    "embedding_seconds": ("Seconds to embed what is fitted on, once", 2),
    "documents_per_second": ("Documents per second, embedding included", 1),
}
LEGEND = {  # of a system, for who does not know its name here
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
    """Of each task, system and labels per class over the draws; and over all tasks, where a system has them all.

    The interval of the mean over tasks is that of independent means: it holds the draws, not the choice of the tasks.
    """
    groups = frame.dropna(subset=[metric]).groupby(["task", "system", "per_label"], sort=False)[metric]
    found = {key: summarize(values.tolist()) for key, values in groups}
    tasks = frame["task"].unique()
    for system, per_label in {key[1:]: None for key in found}:
        parts = [found.get((task, system, per_label)) for task in tasks]
        if all(parts):
            interval = math.hypot(*(part.interval for part in parts)) / len(parts)
            mean = sum(part.mean for part in parts) / len(parts)
            found[MEAN, system, per_label] = Summary(mean, math.nan, interval, min(part.repeats for part in parts))
    return found


def merged(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """A rival with settings (``setfit#max_steps=400``) under its name where its defaults were not run; and where."""
    base = frame["system"].str.partition("#")[0]
    kept = frame["system"] == frame["system"].groupby([frame["task"], frame["per_label"], base]).transform("min")
    frame = frame.assign(base=base)[kept]
    others = frame[frame["system"] != frame["base"]].groupby(["system", "task", "per_label"]).groups
    return frame.assign(system=frame["base"]), [f"{escape(name)} on {escape(task)} at {n}" for name, task, n in others]


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
    lines += [f"With other settings than the default: {'; '.join(notes)}."] if notes else []
    for metric, (title, digits) in TITLES.items():
        if metric not in frame:
            continue
        found = summaries(frame, metric)
        rows = [
            (task if task == MEAN else escape(task), escape(system))
            + tuple(format_summary(found.get((task, system, n)), "interval", digits) for n in counts)
            for task in (MEAN, *frame["task"].unique())
            for system in frame["system"].unique()
            if any((task, system, n) in found for n in counts)
        ]
        lines += [f"## {title}{' (%)' if digits is None else ''}", table(("Task", "System", *counts), rows)]
    return lines


def curves(frame: pd.DataFrame) -> Figure:
    """Mean macro F1 over the tasks, and its interval, over the labels per class."""
    from matplotlib.figure import Figure

    frame, _ = merged(frame)
    means = {key[1:]: value for key, value in summaries(frame, "macro_f1").items() if key[0] == MEAN}
    counts = sorted({count for _, count in means}, key=labels_per_class)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    style = {name: value for name, value in CURVE_STYLE.items() if name not in ("elinewidth", "capsize")}
    for number, system in enumerate(dict.fromkeys(name for name, _ in means)):
        points = [(place, means[system, n]) for place, n in enumerate(counts) if (system, n) in means]
        x, y = [place for place, _ in points], np.array([100 * summary.mean for _, summary in points])
        half = np.nan_to_num([100 * summary.interval for _, summary in points])  # none after one draw
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        axis.plot(
            x,
            y,
            label=LEGEND.get(system, system),
            color=color,
            marker=marker,
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
