"""Long documents: docs/results/length.md."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from experiments.evaluation.results import Summary

from .pages import Figure, Figures, Row
from .records import chosen, records, summarized

SMALL = "docsplit-small-en"
MINILM = "all-MiniLM-L6-v2"
TITLED = "WikipediaTitled"
INVERTED = "WikipediaInverted"
PAIRED = "WikipediaPaired"
TASKS = {SMALL: (TITLED, INVERTED, PAIRED, "20News", "BBCNews"), MINILM: (TITLED, INVERTED, PAIRED, "BBCNews")}
LONG = {name: [task for task in tasks if task != "BBCNews"] for name, tasks in TASKS.items()}
SHORT = {name: [task for task in tasks if task != PAIRED] for name, tasks in TASKS.items()}
WAYS = ("head_tail", "salient", "average", "passages")
CLASSIFIERS = ("probe", "neighbors")
SHOTS = (10, None)  # examples per class; None is all


def length() -> Figures:
    figures: dict[str, Figure] = {}
    for encoder in (SMALL, MINILM):
        figures[f"long, {encoder}"] = gains(encoder, "gain_long", LONG[encoder])
    for encoder in (SMALL, MINILM):
        figures[f"short, {encoder}"] = gains(encoder, "gain_short", SHORT[encoder])
    for encoder in (SMALL, MINILM):
        figures[f"accuracy, {encoder}"] = accuracies(encoder)
    return {**figures, **in_short(), **tokens(), **long_documents(), **short_documents()}


@functools.cache
def cells(encoder: str) -> Mapping[tuple[str, str, str, int | None], dict[str, Summary]]:
    """Return the metrics by system, task, classifier and examples per class."""
    return {
        (cell.system, cell.task, cell.settings["classifier"], cell.settings["shots"]): cell.metrics
        for cell in summarized(f"length/{encoder}")
        if cell.protocol == "length"
    }


def metric(encoder: str, way: str, task: str, classifier: str, shots: int | None, name: str) -> Summary | None:
    system = "tfidf" if way == "tfidf" else f"{encoder} ({way})"
    return cells(encoder).get((system, task, classifier, shots), {}).get(name)


def gain(encoder: str, way: str, task: str, classifier: str, shots: int | None = 10, name: str = "gain_long") -> float:
    """Return the points of accuracy against ``first``."""
    return 100 * metric(encoder, way, task, classifier, shots, name).mean


def every_gain(encoder: str, way: str, task: str, classifiers: tuple[str, ...] = CLASSIFIERS) -> list[float]:
    """Return the gains by classifier and number of examples."""
    return [gain(encoder, way, task, classifier, shots) for classifier in classifiers for shots in SHOTS]


def gains(encoder: str, name: str, tasks: list[str]) -> list[Row]:
    """Return the gains with 10 examples per class and, in brackets, with all."""
    rows = []
    for classifier in CLASSIFIERS:
        for way in WAYS:
            row = [f"`{way}`, {classifier}"]
            for task in tasks:
                few = metric(encoder, way, task, classifier, 10, name)
                shown = "–" if few is None else f"{100 * few.mean:+.1f} ± {100 * few.interval:.1f}"
                row.append(f"{shown} ({gain(encoder, way, task, classifier, None, name):+.1f})")
            rows.append(row)
    return rows


def accuracies(encoder: str) -> list[Row]:
    rows = []
    for classifier in CLASSIFIERS:
        for way in ("first", *WAYS, "tfidf"):
            row = [f"TF-IDF, {classifier}" if way == "tfidf" else f"`{way}`, {classifier}"]
            for task in TASKS[encoder]:
                few = metric(encoder, way, task, classifier, 10, "accuracy")
                full = metric(encoder, way, task, classifier, None, "accuracy")
                row.append(f"{'–' if few is None else f'{100 * few.mean:.1f}'} ({100 * full.mean:.1f})")
            rows.append(row)
    return rows


def in_short() -> dict[str, Figure]:
    """Return the gains of ``average`` that the summary names."""
    titled = every_gain(SMALL, "average", TITLED) + every_gain(MINILM, "average", TITLED)
    paired = every_gain(SMALL, "average", PAIRED) + every_gain(MINILM, "average", PAIRED)
    inverted = every_gain(MINILM, "average", INVERTED)
    return {
        "average loses on Titled, most": -min(titled),
        "average on Paired, least": min(paired),
        "average on Paired, most": max(paired),
        "average on Inverted, MiniLM, least": min(inverted),
        "average on Inverted, MiniLM, most": max(inverted),
        "average on Inverted, docsplit-small-en, most": max(every_gain(SMALL, "average", INVERTED)),
        "average on 20News": gain(SMALL, "average", "20News", "probe", None),
    }


def reading(way: str, task: str) -> dict[str, float]:
    """Return how much of a text docsplit-small-en reads."""
    rows = chosen(records(f"length/{SMALL}"), protocol="length_read", system=f"{SMALL} ({way})", task=task)
    return rows[0]["metrics"]


def tokens() -> dict[str, Figure]:
    """Return the tokens that are read of a document."""
    one_forward = [reading("first", task)["tokens_read"] for task in (TITLED, INVERTED, PAIRED)]
    return {
        "tokens of one forward, least": min(one_forward),
        "tokens of one forward, most": max(one_forward),
        "tokens of all, Titled": reading("average", TITLED)["tokens_read"],
        "tokens of all, Paired": reading("average", PAIRED)["tokens_read"],
        "read of BBCNews": 100 * reading("first", "BBCNews")["share_read"],
    }


def long_documents() -> dict[str, Figure]:
    """Return the gains on documents of more than 1,000 words that sentences name."""
    inverted = [gain for way in ("head_tail", "average", "passages") for gain in every_gain(MINILM, way, INVERTED)]
    lost = {}
    for way in ("head_tail", "average"):
        lost[way] = [-gain(encoder, way, TITLED, "probe", shots) for encoder in (SMALL, MINILM) for shots in SHOTS]
    return {
        "head_tail on Inverted": gain(SMALL, "head_tail", INVERTED, "probe"),
        "MiniLM on Inverted, least": min(inverted),
        "MiniLM on Inverted, most": max(inverted),
        "head_tail loses on Titled, least": min(lost["head_tail"]),
        "head_tail loses on Titled, most": max(lost["head_tail"]),
        "average loses on Titled by the probe, least": min(lost["average"]),
        "average loses on Titled by the probe, most": max(lost["average"]),
        "MiniLM's neighbors on Titled, all": gain(MINILM, "average", TITLED, "neighbors", None),
        "MiniLM's neighbors on Titled, few": gain(MINILM, "average", TITLED, "neighbors"),
    }


def short_documents() -> dict[str, Figure]:
    """Return the losses on documents of up to 1,000 words that sentences name."""
    by_probe = []
    for encoder in (SMALL, MINILM):
        for task in SHORT[encoder]:
            for shots in SHOTS:
                found = metric(encoder, "average", task, "probe", shots, "gain_short")
                if found:
                    by_probe.append(-100 * found.mean)
    few = metric(MINILM, "average", INVERTED, "neighbors", 10, "gain_short")
    return {
        "average loses on short ones by the probe, most": max(by_probe),
        "average loses on short ones, MiniLM, Inverted": (-100 * few.mean, 100 * few.interval),
        "average loses on short ones, docsplit-small-en, Titled": -gain(
            SMALL, "average", TITLED, "neighbors", None, "gain_short"
        ),
        "passages lose on short ones": -gain(SMALL, "passages", TITLED, "probe", 10, "gain_short"),
    }
