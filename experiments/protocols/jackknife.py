"""Jackknife confidence intervals of statistics over documents."""

from __future__ import annotations

import math

import numpy as np

from ..evaluation.results import INTERVAL


def half_interval(without_each: np.ndarray) -> float | None:
    """Half the 95 % confidence interval of a statistic, given its values without each of N documents, ``(N,)``.

    The jackknife: ``t(N-1, 0.975) * sqrt((N-1)/N * sum_i (x_i - mean x)^2)``, for a mean the usual t-interval. None
    where the statistic is undefined without one of the documents.
    """
    from scipy.stats import t

    count = len(without_each)
    if count < 2 or not np.isfinite(without_each).all():
        return None
    return float(t.ppf(0.975, count - 1) * math.sqrt((count - 1) * without_each.var()))


def with_intervals(metrics: dict[str, float], without_each: dict[str, np.ndarray]) -> dict[str, float]:
    """The metrics, and half the interval of each that has one."""
    intervals = {f"{name}{INTERVAL}": half_interval(without_each[name]) for name in metrics}
    return metrics | {name: half for name, half in intervals.items() if half is not None}


def ratio_without_each(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """The ratio of two sums over documents without each of them, ``(N,)``; NaN where the denominator is 0."""
    numerator_sums = numerators.sum() - numerators
    denominator_sums = denominators.sum() - denominators
    undefined = np.full(len(numerators), np.nan)
    return np.divide(numerator_sums, denominator_sums, out=undefined, where=denominator_sums > 0)
