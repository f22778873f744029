"""Pages of the guide that repeat figures of docs/results."""

from __future__ import annotations

from .few_labels import against_setfit, mean_of, mean_of_sets
from .longer_study import parts_over_halves
from .pages import Figures
from .projection import gain as gain_of_projection
from .readme import pretrained_further
from .records import content


def few_labels_guide() -> Figures:
    return {
        "ours": mean_of_sets("seventeen", "ours", "5"),
        "without documents": mean_of_sets("seventeen", "ours_without_documents", "5"),
        "probe": mean_of_sets("seventeen", "probe", "5"),
    }


def coming_from_setfit() -> Figures:
    found = against_setfit()
    bbc = found["bbc", "5", "default"]
    news = found["fakenews", "5", "default"]
    return {
        "ours": mean_of("ours", "5"),
        "SetFit": mean_of("setfit", "5"),
        "without documents": mean_of("ours_without_documents", "5"),
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
    projection, _ = gain_of_projection("MiniLM", "projection")
    points = parts_over_halves().values()
    return {
        "before": pretrained_further("MiniLM"),
        "after": pretrained_further("docsplit_best_recipe"),
        "projection": projection,
        "parts over halves": sum(points) / len(points),
    }


def corpus() -> Figures:
    """Return what ran on Slurm and Ray."""
    runs = content("engines.json")
    figures = {"documents": runs["slurm, daemon killed"]["documents"]}
    for engine in ("slurm", "ray", "datatrove"):
        [figures[engine]] = {run[engine] for run in runs.values() if engine in run}
    return figures
