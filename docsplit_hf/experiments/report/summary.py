"""Repeats of a measurement put together: mean, standard deviation and confidence interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Summary:
    """What several repeats gave.

    Args:
        mean: Their mean.
        std: Their standard deviation (of a sample: divided by n - 1), NaN for one repeat.
        interval: Half the width of the 95 % confidence interval of the mean, by Student's t; NaN for one repeat. It
            holds what differs between the repeats (seeds, draws of examples), not the choice of the test set.
        repeats: How many there were.

    Example:

        >>> summarize([0.5, 0.7]).mean
        0.6
    """

    mean: float
    std: float
    interval: float
    repeats: int


def summarize(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and the 95 % confidence interval ``t(n-1, 0.975) * std / sqrt(n)``.

    Args:
        values: One number a repeat.

    Returns:
        The summary.

    Raises:
        ValueError: If there are no values.

    Example:

        >>> summary = summarize([0.1, 0.2, 0.3])
        >>> round(summary.mean, 3), round(summary.std, 3), round(summary.interval, 3)
        (0.2, 0.1, 0.248)
    """
    from scipy.stats import t

    if len(values) == 0:
        raise ValueError("There is nothing to summarize.")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Summary(mean, math.nan, math.nan, 1)
    std = float(np.std(values, ddof=1))
    interval = float(t.ppf(0.975, len(values) - 1)) * std / math.sqrt(len(values))
    return Summary(mean, std, interval, len(values))


@dataclass(frozen=True)
class Cell:
    """One system on one task by one protocol and its settings, over all seeds.

    Args:
        system: The system's name.
        task: The task's name.
        protocol: The protocol.
        settings: Its settings.
        metrics: A summary of each metric.
        seeds: The seeds.

    Example:

        >>> Cell("A", "20news", "few_shot", {"shots": 5}, {"accuracy": summarize([0.5])}, (0,)).settings["shots"]
        5
    """

    system: str
    task: str
    protocol: str
    settings: Mapping[str, Any]
    metrics: Mapping[str, Summary]
    seeds: tuple[int, ...]


def summarize_records(records: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Put the repeats among records together.

    Args:
        records: As in ``results.json``.

    Returns:
        One cell for each system, task, protocol and settings, in the order in which they come first.

    Example:

        >>> record = dict(system="A", task="B", protocol="full", settings={}, metrics={"accuracy": 0.5})
        >>> [cell] = summarize_records([record | {"seed": 0}, record | {"seed": 1}])
        >>> cell.seeds, cell.metrics["accuracy"].repeats
        ((0, 1), 2)
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        key = [record[name] for name in ("system", "task", "protocol", "settings")]
        groups.setdefault(json.dumps(key, sort_keys=True), []).append(record)
    return [
        Cell(
            *(group[0][name] for name in ("system", "task", "protocol", "settings")),
            metrics={
                name: summarize([record["metrics"][name] for record in group if name in record["metrics"]])
                for name in dict.fromkeys(name for record in group for name in record["metrics"])
            },
            seeds=tuple(record["seed"] for record in group),
        )
        for group in groups.values()
    ]
