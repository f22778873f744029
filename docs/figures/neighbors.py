"""Classification with neighbors, beside the paper: docs/results/neighbors.md."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import numpy as np

from experiments.evaluation.results import Summary
from experiments.protocols.decoupled import PARTS
from experiments.report.paper_results import DECOUPLED, RETRIEVAL_VECTORS
from experiments.tasks.known_tasks import task_metric

from .pages import Figure, Figures
from .records import Cell, Records, chosen, mean, percent, records, summarized

ENGLISH = ("CoLA", "SST-2", "MRPC", "QNLI")
CHINESE = ("TNEWS", "IFLYTEK", "OCNLI", "AFQMC", "CSL", "WSC")
BASE = "base"
TL = "triplet_loss"
DECOUPLE = "decoupled"
VARIANTS = {"base": BASE, "TL": TL, "TL + D": DECOUPLE}
# The folders with other margins of the triplet loss, and how the table names them.
MARGINS = {"margins/0.01": "0.01", "english": "0.1, the default", "margins/1": "1", "margins/10": "10"}
FIRST_TOKEN_TASKS = ("SST-2", "QNLI")
# Classifier, neighbors and mixture.
Parts = tuple[float, float, float]
Scores = Mapping[tuple[str, str], Parts]


def neighbors() -> Figures:
    return {
        **classifiers(),
        **mixing(),
        **variants(),
        **number_and_temperature(),
        **beside_word_counts(),
        **runs(),
        **first_token(),
        **all_of_cola(),
        **clusters(),
        **margins(),
    }


def part_summary(cell: Cell, part: str) -> Summary:
    """Return the metric of the task, of the classifier, the neighbors or the mixture."""
    return cell.metrics[f"{PARTS[part]}{task_metric(cell.task)}"]


def cells(protocol: str) -> list[Cell]:
    found = [cell for name in ("english", "chinese") for cell in summarized(f"neighbors/{name}")]
    return [cell for cell in found if cell.protocol == protocol]


@functools.cache
def scores(neighbors: str) -> Scores:
    """Return the parts by task and variant, in percent of the task's metric."""
    return {
        (cell.task, cell.settings["variant"]): tuple(
            100 * part_summary(cell, part).mean for part in ("classifier", "knn", "mixture")
        )
        for cell in cells("decoupled")
        if cell.settings["neighbors"] == neighbors
    }


def gaps(found: Scores, tasks: Iterable[str]) -> list[float]:
    """Return by how many points the mixture is above the better of its parts."""
    return [round(mixed - max(parts), 9) for (task, _), (*parts, mixed) in found.items() if task in tasks]


def of_paper() -> Mapping[tuple[str, str], float]:
    """Return the paper's table 1 by row and task."""
    return {(row, task): DECOUPLED.of(row, task)["task_metric"] for row in DECOUPLED.rows for task in DECOUPLED.tasks}


def classifiers() -> dict[str, Figure]:
    """Return the classifiers by variant, and what a triplet loss costs in the paper."""
    calibrated = scores("calibrated")
    paper = of_paper()
    costs = [paper["base", task] - paper["TL", task] for task in (*ENGLISH, *CHINESE)]
    figures: dict[str, Figure] = {
        "CoLA, best": max(scores("fixed")["CoLA", variant][2] for variant in VARIANTS.values()),
        "CoLA, best by the oracle": max(scores("oracle")["CoLA", variant][2] for variant in VARIANTS.values()),
        "AFQMC, TL": calibrated["AFQMC", TL][0],
        "WSC, TL": calibrated["WSC", TL][0],
    }
    for task in ("SST-2", "QNLI", "TNEWS", "IFLYTEK"):
        for name, variant in VARIANTS.items():
            figures[f"classifier, {task}, {name}"] = calibrated[task, variant][0]
    figures["paper's cost of TL, most"] = max(costs)
    figures["paper's gain of TL, WSC"] = -min(costs)
    return figures


def mixing() -> dict[str, Figure]:
    """Return how far the mixture is above or below the better of its parts."""
    calibrated = scores("calibrated")
    english = gaps(calibrated, ENGLISH)
    chinese = gaps(calibrated, CHINESE)
    learned = {task for task, _ in calibrated} - {"CoLA", "AFQMC", "WSC"}
    remaining = gaps({key: value for key, value in calibrated.items() if key[1] != TL}, learned)
    oracle = scores("oracle")
    oracle_chinese = np.mean(gaps(oracle, CHINESE))
    oracle_without_cola = np.mean(gaps(oracle, set(ENGLISH) - {"CoLA"}))
    paper = of_paper()
    best = [
        paper[f"{row}, KNN best", task] - max(paper[row, task], paper[f"{row}, KNN", task])
        for row in ("base", "TL", "TL + D")
        for task in DECOUPLED.tasks
    ]
    figures: dict[str, Figure] = {
        "paper's best mixture": np.mean(best),
        "paper's best mixture, cells": len(best),
        "paper's best mixture, least": min(best),
        "paper's best mixture, most": max(best),
        "cells not below": sum(gap >= 0 for gap in english + chinese),
        "cells": len(english + chinese),
        "below, English": -np.mean(english),
        "cells, English": len(english),
        "below, English, worst": -min(english),
        "above, Chinese": np.mean(chinese),
        "cells, Chinese": len(chinese),
        "below, Chinese, worst": -min(chinese),
        "cells that say little": len(english + chinese) - len(remaining),
        "cells that remain": len(remaining),
        "remaining cells not below": sum(gap >= 0 for gap in remaining),
        "above, remaining": np.mean(remaining),
        "oracle, Chinese": oracle_chinese,
        "oracle, English without CoLA": oracle_without_cola,
        "oracle, English": np.mean(gaps(oracle, ENGLISH)),
    }
    for variant in ("without TL", "TL"):
        found = {key: value for key, value in scores("fixed").items() if (key[1] == TL) == (variant == "TL")}
        for language, tasks in (("English", ENGLISH), ("Chinese", CHINESE)):
            figures[f"paper's lambda costs, {variant}, {language}"] = -np.mean(gaps(found, tasks))
    return figures


def variants() -> dict[str, Figure]:
    """Return what the decoupled representation gains over base."""
    calibrated = scores("calibrated")
    paper = of_paper()
    gains = [paper["TL + D", task] - paper["base", task] for task in DECOUPLED.tasks if task != "WSC"]
    deviations = [part_summary(c, "classifier").std for c in cells("decoupled") if c.settings["variant"] != TL]
    figures: dict[str, Figure] = {}
    for task in (*ENGLISH, *CHINESE):
        figures[f"TL + D over base, {task}"] = calibrated[task, DECOUPLE][0] - calibrated[task, BASE][0]
    figures["deviation of seeds, most"] = 100 * max(deviations)
    figures["paper's TL + D over base, least"] = min(gains)
    figures["paper's TL + D over base, most"] = max(gains)
    figures["paper's TL + D over base, WSC"] = paper["TL + D", "WSC"] - paper["base", "WSC"]
    return figures


def number_and_temperature() -> dict[str, Figure]:
    """Return what the number of neighbors and their temperature change of neighbors alone."""
    by_k: dict[str, dict[int, float]] = {}
    by_temperature: dict[str, dict[float, float]] = {}
    for cell in cells("neighbors_sweep"):
        value = 100 * part_summary(cell, "knn").mean
        if cell.settings["temperature"] == 10:
            by_k.setdefault(cell.task, {})[cell.settings["k"]] = value
        if cell.settings["k"] == 64:
            by_temperature.setdefault(cell.task, {})[cell.settings["temperature"]] = value
    changes = {}
    for task, values in by_temperature.items():
        changes[task] = max(abs(value - values[10]) for temperature, value in values.items() if temperature >= 0.1)
    lowest = max(abs(values[0.001] - values[10]) for values in by_temperature.values())
    behind = {task: max(values.values()) - values[64] for task, values in by_k.items()}
    figures: dict[str, Figure] = {
        "change by temperature, English": max(changes[task] for task in ENGLISH),
        "change by temperature, Chinese": max(changes[task] for task in CHINESE),
        "change by temperature 0.001": lowest,
        "64 neighbors behind, seventh of ten": sorted(behind.values())[6],
    }
    for task in ("CoLA", "IFLYTEK", "WSC"):
        figures[f"64 neighbors behind, {task}"] = behind[task]
    return figures


def beside_word_counts() -> dict[str, Figure]:
    calibrated = scores("calibrated")
    chinese = chosen(records("neighbors/chinese"), protocol="full")
    english = chosen(records("neighbors/english"), protocol="full")
    figures: dict[str, Figure] = {}
    for task in ("TNEWS", "IFLYTEK"):
        figures[f"words, {task}"] = mean(chinese, "accuracy", system="tfidf", task=task)
    for task in ("TNEWS", "IFLYTEK"):
        figures[f"best, {task}"] = max(max(calibrated[task, variant]) for variant in VARIANTS.values())
    for task in ("TNEWS", "IFLYTEK"):
        figures[f"frozen, {task}"] = mean(chinese, "accuracy", system="chinese", task=task)
    for task in ("SST-2", "QNLI"):
        figures[f"TL + D, mixed, {task}"] = calibrated[task, DECOUPLE][2]
        figures[f"words, {task}"] = mean(english, "accuracy", system="tfidf", task=task)
    return figures


def runs() -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for name in ("english", "chinese"):
        rows = records(f"neighbors/{name}")
        figures[f"minutes, {name}"] = sum(row["seconds"] for row in rows) / 60
        figures[f"records, {name}"] = len(rows)
    return figures


def by_task(metric: str, **about: str) -> list[float]:
    """Return the means of the runs that classify the first token."""
    rows = records("neighbors/first_token")
    return [mean(rows, metric, neighbors="calibrated", task=task, **about) for task in FIRST_TOKEN_TASKS]


def first_token() -> dict[str, Figure]:
    """Return the first token's figures, by what neighbors are looked for with."""
    rows = []
    for name, variant in VARIANTS.items():
        values = by_task("classifier_accuracy", protocol="decoupled", variant=variant)
        rows.append((name, *(f"{value:.1f}" for value in values)))
    names = {"cls": "TL + D, mixed, neighbors by the first token", "mean": "by the mean", "max": "by the maximum"}
    mixed = {}
    for pooling, name in names.items():
        mixed[pooling] = by_task("accuracy", protocol="retrieval_vectors", retrieval_pooling=pooling)
        rows.append((name, *(f"{value:.1f}" for value in mixed[pooling])))
    costs = [max(mixed["cls"][i], mixed["mean"][i]) - mixed["max"][i] for i in range(len(FIRST_TOKEN_TASKS))]
    costs_of_paper = []
    for task in FIRST_TOKEN_TASKS:
        first, second, largest = (RETRIEVAL_VECTORS.of(n, task)["task_metric"] for n in RETRIEVAL_VECTORS.rows)
        costs_of_paper.append(max(first, second) - largest)
    figures: dict[str, Figure] = {
        "first token": rows,
        "paper's cost of the maximum": np.mean(costs_of_paper),
        "cost of the maximum, SST-2": costs[0],
        "cost of the maximum, QNLI": costs[1],
    }
    for pooling in ("max", "cls"):
        accuracy = by_task("classifier_accuracy", protocol="retrieval_vectors", retrieval_pooling=pooling)
        figures[f"classifier by {pooling}, QNLI"] = accuracy[1]
    for name, variant in VARIANTS.items():
        rows = records("neighbors/table_3")
        accuracy = mean(rows, "classifier_accuracy", neighbors="calibrated", variant=variant)
        figures[f"paper's settings, {name}"] = accuracy
    return figures


def all_of_cola() -> dict[str, Figure]:
    """Return Matthews correlation with all examples of CoLA."""

    def correlation(variant: str, part: str) -> float:
        metric = f"{PARTS[part]}matthews_correlation"
        return mean(records("neighbors/cola"), metric, neighbors="calibrated", variant=variant)

    figures: dict[str, Figure] = {}
    for name, variant in VARIANTS.items():
        figures[f"all of CoLA, {name}"] = correlation(variant, "classifier")
    for name in ("base", "TL + D"):
        variant = VARIANTS[name]
        gain = correlation(variant, "mixture") - correlation(variant, "classifier")
        figures[f"all of CoLA, mixing, {name}"] = gain
    figures["all of CoLA, base's neighbors"] = correlation(BASE, "knn")
    return figures


def clusters() -> dict[str, Figure]:
    """Return how many neighbors have the label, and the silhouette of the classes."""
    rows = records("neighbors/first_token")
    figures: dict[str, Figure] = {}
    for name in ("TL + D", "base"):
        purity = by_task("purity", protocol="decoupled", variant=VARIANTS[name])
        for task, value in zip(FIRST_TOKEN_TASKS, purity, strict=True):
            figures[f"neighbors with the label, {name}, {task}"] = value
    for name in ("TL + D", "base"):
        for task in FIRST_TOKEN_TASKS:
            values = percent(rows, "silhouette", protocol="decoupled", variant=VARIANTS[name], task=task) / 100
            figures[f"silhouette, {name}, {task}"] = (values.mean(), values.std(ddof=1))
    return figures


def of_margin(folder: str) -> Records:
    return chosen(records(f"neighbors/{folder}"), protocol="decoupled", task="SST-2", neighbors="calibrated")


def margins() -> dict[str, Figure]:
    """Return the classifier and its neighbors by the margin of the triplet loss."""
    table = []
    classifiers = []
    deviations = []
    base = scores("calibrated")["SST-2", BASE][0]
    figures: dict[str, Figure] = {}
    for folder, name in MARGINS.items():
        rows = of_margin(folder)
        alone = [mean(rows, metric, variant=TL) for metric in ("classifier_accuracy", "knn_accuracy")]
        parts = ("classifier_accuracy", "knn_accuracy", "accuracy")
        decoupled = [mean(rows, metric, variant=DECOUPLE) for metric in parts]
        table.append((name, *(f"{value:.1f}" for value in (*alone, *decoupled))))
        classifiers.append(decoupled[0])
        deviations.append(percent(rows, "classifier_accuracy", variant=DECOUPLE).std(ddof=1))
        if folder in ("english", "margins/10"):
            figures[f"cost of TL, margin {name}"] = base - alone[0]
    largest = of_margin("margins/10")
    figures["margins"] = table
    figures["neighbors of base"] = mean(largest, "knn_accuracy", variant=BASE)
    figures["classifier of base"] = base
    figures["TL + D by margin, least"] = min(classifiers)
    figures["TL + D by margin, most"] = max(classifiers)
    figures["deviation of seeds by margin, most"] = max(deviations)
    for margin in ("0.01", "1", "10"):
        rows = of_margin(f"margins/{margin}")
        figures[f"silhouette, margin {margin}"] = mean(rows, "silhouette", variant=DECOUPLE) / 100
    for margin in ("0.01", "1", "10"):
        rows = of_margin(f"margins/{margin}")
        figures[f"neighbors with the label, margin {margin}"] = mean(rows, "purity", variant=DECOUPLE)
    return figures
