"""Redundancy, attention to nouns, and nouns masked: docs/results/analyses.md."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from experiments.evaluation.results import summarize
from experiments.protocols.masked_nouns import MASKED
from experiments.study import longer_report as report

from .pages import Figure, Figures, Row
from .records import chosen, content, percent, records

TASKS = {"Wikipedia": "wikipedia", "20News": "20News", "BBCNews": "BBCNews", "arXiv": "arXiv", "FakeNews": "FakeNews"}
SYSTEMS = ("start", "docsplit", "simcse", "MiniLM", "docsplit-small-en")
OF_PAPER = ("*SimCSE, the paper's*", "–", "0.21 / 0.07", "0.32 / 0.09", "0.51 / 0.35", "0.28 / 0.06")
MASKED_SYSTEMS = ("start", "simcse", "docsplit", "cropping", "docsplit-small-en")
MASKED_TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
SHOWN_LENGTHS = {
    "20News": ("0-50", "more than 300"),
    "arXiv": ("0-50", "201-300"),
    "BBCNews": ("101-200", "more than 300"),
    "FakeNews": ("51-100", "more than 300"),
    "Wikipedia": ("more than 300",),
}


def analyses() -> Figures:
    return {
        "attention": attention(),
        "masked nouns": masked_nouns(),
        "sentences": sentences(),
        **redundancy(),
        **cosines(),
        **attention_in_sentences(),
        **gain_with_masked_nouns(),
        **gain_and_redundancy(),
    }


@functools.cache
def by_seed(protocol: str, task: str, system: str) -> Sequence[dict[str, float]]:
    """Return the metrics of a system, or of each of its three seeds of training."""
    found = chosen(records("analyses"), protocol=protocol, task=TASKS[task])
    return [row["metrics"] for row in found if row["system"].partition("/seed")[0] == system]


def metrics(protocol: str, task: str, system: str) -> dict[str, float]:
    """Return the means of the metrics over the seeds."""
    rows = by_seed(protocol, task, system)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def more_attention(task: str, system: str, other: str) -> list[float]:
    """Return by how many percent attention to nouns exceeds another system's, for each seed."""
    mine = by_seed("attention", task, system)
    theirs = by_seed("attention", task, other)
    theirs = list(theirs) * (len(mine) // len(theirs))
    return [100 * (one["noun"] / two["noun"] - 1) for one, two in zip(mine, theirs, strict=True)]


def attention() -> list[Row]:
    rows = []
    for name, system, other in (
        ("DocSplit against SimCSE", "docsplit", "simcse"),
        ("DocSplit against the start", "docsplit", "start"),
        ("SimCSE against the start", "simcse", "start"),
    ):
        by_task = [more_attention(task, system, other) for task in TASKS]
        rows.append((name, *(f"{np.mean(more):+.0f} % ({min(more):+.0f} to {max(more):+.0f})" for more in by_task)))
    for name, other in (("the study's start", "start"), ("MiniLM", "MiniLM")):
        means = [np.mean(more_attention(task, "docsplit-small-en", other)) for task in TASKS]
        rows.append((f"docsplit-small-en against {name}", *(f"{mean:+.0f} %" for mean in means)))
    for name, system in (
        ("a noun against another word, DocSplit", "docsplit"),
        ("the same, SimCSE", "simcse"),
        ("the same, docsplit-small-en", "docsplit-small-en"),
        ("the same, MiniLM", "MiniLM"),
    ):
        found = [metrics("attention", task, system) for task in TASKS]
        rows.append((name, *(f"{one['noun'] / one['other']:.2f}" for one in found)))
    return rows


def sentences() -> list[Row]:
    rows = []
    for system in SYSTEMS:
        found = [metrics("redundancy", task, system) for task in TASKS]
        cells = (
            f"{one['within']:.2f} ± {one['within_interval']:.2f} / {one['between']:.2f} ± {one['between_interval']:.2f}"
            for one in found
        )
        rows.append((system, *cells))
    return [*rows, OF_PAPER]


def redundancy() -> dict[str, Figure]:
    """Return R of nouns and verbs by the length of texts in words, with its interval."""
    figures = {}
    for task, lengths in SHOWN_LENGTHS.items():
        [row] = chosen(records("analyses"), protocol="nouns_and_verbs", task=TASKS[task])
        for length in lengths:
            figures[f"R, {task}, {length}"] = (row["metrics"][length], row["metrics"][f"{length}_interval"])
    return figures


def cosines() -> dict[str, Figure]:
    """Return SimCSE's cosine of sentences of one document, and of two."""
    figures = {}
    for task in ("Wikipedia", "BBCNews", "arXiv"):
        found = metrics("redundancy", task, "simcse")
        for kind in ("within", "between"):
            with_interval = (found[kind], found[f"{kind}_interval"])
            figures[f"cosine {kind}, {task}"] = with_interval if task == "arXiv" else found[kind]
    return figures


def attention_in_sentences() -> dict[str, Figure]:
    """Return by how many percent attention to nouns differs: means over seeds, and the extremes."""
    order = ("Wikipedia", "BBCNews", "20News", "FakeNews", "arXiv")
    over_simcse = {task: more_attention(task, "docsplit", "simcse") for task in order}
    over_start = {task: more_attention(task, "docsplit", "start") for task in order}
    of_simcse = [more for task in order for more in more_attention(task, "simcse", "start")]
    figures: dict[str, Figure] = {}
    for task in order:
        figures[f"attention over SimCSE, {task}"] = np.mean(over_simcse[task])
    figures["SimCSE over start, least"] = min(of_simcse)
    figures["SimCSE over start, most"] = max(of_simcse)
    for task in order:
        figures[f"attention over start, {task}"] = np.mean(over_start[task])
    highest_of_simcse = [max(more) for more in over_simcse.values()]
    highest = [max(more) for more in over_start.values()]
    lowest = [min(more) for more in over_start.values()]
    figures["lower than SimCSE, best seed"] = -min(highest_of_simcse)
    figures["higher than SimCSE, best seed"] = max(highest_of_simcse)
    figures["higher than start, best seed, least"] = min(highest)
    figures["higher than start, best seed, most"] = max(highest)
    figures["lower than start, worst seed, least"] = -max(lowest)
    figures["lower than start, worst seed, most"] = -min(lowest)
    return figures


def masked_scores(system: str, masked: str) -> np.ndarray:
    """Return few-shot macro F1 by task and draw."""
    rows = records("masked_nouns")
    return np.array([percent(rows, f"{masked}_macro_f1", system=system, task=task) for task in MASKED_TASKS])


def masked_nouns() -> list[Row]:
    rows = []
    for system in MASKED_SYSTEMS:
        by_task = zip(*(masked_scores(system, masked).mean(1) for masked in MASKED), strict=True)
        rows.append((system, *(" / ".join(f"{value:.1f}" for value in values) for values in by_task)))
    return rows


def gain_with_masked_nouns() -> dict[str, Figure]:
    """Return DocSplit's gain over SimCSE on the three sets of topics, with its interval."""
    figures = {}
    for name, masked in zip(("nothing", "nouns", "others"), MASKED, strict=True):
        gains = masked_scores("docsplit", masked) - masked_scores("simcse", masked)
        found = summarize(list(gains[:3].mean(0)))
        figures[f"gain, {name} masked"] = (found.mean, found.interval)
    return figures


def gain_and_redundancy() -> dict[str, Figure]:
    """Return R, DocSplit's gain over SimCSE by task, and their rank correlation."""
    tasks = ("20News", "FakeNews", "arXiv", "BBCNews")
    rows = content("longer_study/records.jsonl")
    redundancies = []
    gains = []
    for task in tasks:
        [row] = chosen(records("analyses"), protocol="nouns_and_verbs", task=task)
        redundancies.append(row["metrics"]["all"])
        gains.append(report.ahead(rows, (report.OURS, report.SIMCSE), 2000, tasks=(task,))[1].mean())
    figures: dict[str, Figure] = {}
    for task, value in zip(tasks, redundancies, strict=True):
        figures[f"R, {task}"] = value
    for task, gain in zip(tasks, gains, strict=True):
        figures[f"gain over SimCSE, {task}"] = gain
    figures["rank correlation"] = spearmanr(redundancies, gains).statistic
    return figures
