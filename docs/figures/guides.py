"""Pages of the guide that repeat figures of docs/results."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .few_labels import ERROR, against_setfit, escaped, mean_of, mean_of_sets
from .longer_study import parts_over_halves
from .pages import Figures
from .readme import pretrained_further
from .records import content


def few_labels_guide() -> Figures:
    return {
        "ours": mean_of_sets("seventeen", "ours", "5"),
        "without documents": mean_of_sets("seventeen", "ours_without_documents", "5"),
        "probe": mean_of_sets("seventeen", "probe", "5"),
        **style(),
    }


def style() -> Figures:
    """Return figures with and without the expert on style: of each set, and means of sets whose labels are topics."""
    keys = ["task", "per_label", "system"]
    topics = pd.DataFrame(content("few_labels/style_topics.jsonl")).groupby(keys)[["macro_f1", ERROR]].mean()
    others = pd.DataFrame(content("few_labels/style.jsonl")).groupby(keys)[["macro_f1", ERROR]].mean()
    others = others.drop(index=topics.index.unique("task"), errors="ignore")
    means = pd.concat({"topics": topics.groupby(["per_label", "system"]).mean()}, names=["task"])
    found = 100 * pd.concat([others, means]).unstack("system")
    columns = [("macro_f1", system) for system in ("ours_without_style", "ours", "style")]
    columns += [(ERROR, system) for system in ("ours_without_style", "ours")]
    rows = []
    for (task, labels), own in found.iterrows():
        cells = ["" if np.isnan(own[column]) else f"{own[column]:.1f}" for column in columns]
        rows.append((escaped(task), str(labels), *cells))
    of_topics = found.loc["topics", 20]["macro_f1"]
    return {"style": rows, "style, loss on topics": of_topics["ours_without_style"] - of_topics["ours"]}


def coming_from_setfit() -> Figures:
    found = against_setfit()
    bbc = found["bbc", "5", "default"]
    news = found["fakenews", "5", "default"]
    return {
        "SetFit, seconds": bbc.setfit_seconds,
        "ours, seconds": bbc.our_seconds,
        "SetFit ahead, fakenews": news.setfit - news.ours,
    }


def no_labels() -> Figures:
    return {
        "ours": mean_of("ours", "0"),
        "nearest name": mean_of("name_cosine", "0"),
        "ours, bbc": mean_of("ours", "0", task="bbc"),
    }


def pretraining() -> Figures:
    points = parts_over_halves().values()
    return {
        "before": pretrained_further("MiniLM"),
        "after": pretrained_further("docsplit_best_recipe"),
        "parts over halves": sum(points) / len(points),
    }


def corpus() -> Figures:
    """Return what ran on Slurm and Ray."""
    runs = content("engines.json")
    figures = {"documents": runs["slurm, daemon killed"]["documents"]}
    for engine in ("slurm", "ray", "datatrove"):
        [figures[engine]] = {run[engine] for run in runs.values() if engine in run}
    return figures
