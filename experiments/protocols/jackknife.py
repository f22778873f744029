"""How far a statistic of documents may be off because there are no more of them."""

from __future__ import annotations

import math

import numpy as np

from docsplit_hf.evaluation.results import INTERVAL


def half_interval(without_each: np.ndarray) -> float | None:
    """Half the 95 % confidence interval of a statistic, given its values without each of N documents, ``(N,)``.

    The jackknife: ``t(N-1, 0.975) * sqrt((N-1)/N * sum_i (x_i - mean x)^2)``, for a mean the usual t-interval. None
    where it is not defined without one of them.
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
    """The ratio of two sums over documents without each of them, ``(N,)``; NaN where nothing is left."""
    left, right = numerators.sum() - numerators, denominators.sum() - denominators
    return np.divide(left, right, out=np.full(len(left), np.nan), where=right > 0)
