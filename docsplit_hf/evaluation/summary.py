"""Repeats of a measurement put together: mean, standard deviation and confidence interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

INTERVAL = "_interval"  # "noun_interval" is half the interval of the metric "noun"
GROUP = ("system", "task", "protocol", "settings")


class Summary(NamedTuple):
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


def summarize_records(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each system, task, protocol, settings and metric, in the order in which they come first.

    The columns are ``GROUP``, ``seeds`` (a tuple), ``metric``, and the fields of ``Summary`` over the seeds.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(json.dumps([record[name] for name in GROUP], sort_keys=True), []).append(record)
    rows = []
    for mine in groups.values():
        about = [*(mine[0][name] for name in GROUP), tuple(record["seed"] for record in mine)]
        metrics = pd.DataFrame([record["metrics"] for record in mine])
        for name in (name for name in metrics if not name.endswith(INTERVAL)):
            found = summarize(metrics[name].dropna())
            if f"{name}{INTERVAL}" in metrics:
                found = found._replace(documents=float(metrics[f"{name}{INTERVAL}"].mean()))
            rows.append((*about, name, *found))
    return pd.DataFrame(rows, columns=[*GROUP, "seeds", "metric", *Summary._fields])


def setting(frame: pd.DataFrame, name: str) -> pd.Series:
    """A setting of each row, None where it has none of this name."""
    return pd.Series([settings.get(name) for settings in frame["settings"]], frame.index, dtype=object)
