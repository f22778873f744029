"""Repeats of a measurement put together: mean, standard deviation and confidence interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ..protocols.jackknife import INTERVAL

GROUP = ("system", "task", "protocol", "settings")


@dataclass(frozen=True)
class Summary:
    """Mean, sample standard deviation, and half the 95 % confidence interval of the mean; both NaN for one repeat.

    ``interval`` holds what differs between the repeats (seeds, draws of examples), not the choice of the test set;
    ``documents`` holds that choice, where the protocol measures it.
    """

    mean: float
    std: float
    interval: float
    repeats: int
    documents: float = math.nan


def summarize(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and the 95 % confidence interval ``t(n-1, 0.975) * std / sqrt(n)``."""
    from scipy.stats import t

    if len(values) == 0:
        raise ValueError("There is nothing to summarize.")
    series = pd.Series(values, dtype=float)
    std = float(series.std())
    interval = float(t.ppf(0.975, len(series) - 1)) * std / math.sqrt(len(series))
    return Summary(float(series.mean()), std, interval, len(series))


@dataclass(frozen=True)
class Cell:
    """One system on one task by one protocol and its settings: a summary of each metric over all seeds."""

    system: str
    task: str
    protocol: str
    settings: Mapping[str, Any]
    metrics: Mapping[str, Summary]
    seeds: tuple[int, ...]


def summarize_records(records: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """One cell per system, task, protocol and settings, in the order in which they come first in the records."""
    frame = pd.DataFrame(list(records))
    if frame.empty:
        return []
    key = [json.dumps(group, sort_keys=True) for group in frame[list(GROUP)].to_numpy().tolist()]
    cells = []
    for _, group in frame.groupby(key, sort=False):
        metrics = pd.DataFrame(group["metrics"].tolist())
        summaries = {name: summarize(metrics[name].dropna()) for name in metrics if not name.endswith(INTERVAL)}
        for name in summaries:
            if f"{name}{INTERVAL}" in metrics:
                over_documents = float(metrics[f"{name}{INTERVAL}"].mean())
                summaries[name] = replace(summaries[name], documents=over_documents)
        cells.append(Cell(*group.iloc[0][list(GROUP)], metrics=summaries, seeds=tuple(group["seed"].tolist())))
    return cells
