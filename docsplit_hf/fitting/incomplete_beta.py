"""The regularized incomplete beta function in NumPy, for installations without scipy."""

from __future__ import annotations

import math

import numpy as np

MOST_TERMS = 10_000  # of the continued fraction; it takes about the root of the larger parameter
CONVERGED = 1e-14  # relative change of the fraction; rounding errors can stay above the last digit forever
LEAST = 1e-300  # replaces 0 as a denominator
log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def incomplete_beta(a: np.ndarray | float, b: np.ndarray | float, x: np.ndarray | float) -> np.ndarray:
    """``I_x(a, b)`` for a, b above 0 and x from 0 to 1, as ``scipy.special.betainc``."""
    a, b, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(x, np.float64))
    # The fraction converges where x is below the mean; elsewhere it gives the other tail.
    is_above = x > (a + 1) / (a + b + 2)
    first = np.where(is_above, b, a)
    second = np.where(is_above, a, b)
    inside = np.where(is_above, 1 - x, x)
    with np.errstate(divide="ignore"):  # of the logarithm of 0: the factor is 0
        logs = first * np.log(inside) + second * np.log1p(-inside)
    factor = np.exp(logs + log_gamma(a + b) - log_gamma(a) - log_gamma(b)) / first
    tail = factor * _continued_fraction(first, second, inside)
    return np.where(is_above, 1 - tail, tail)


def _continued_fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The continued fraction of https://dlmf.nist.gov/8.17#v, by Lentz's method."""
    c = np.ones_like(x)
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MOST_TERMS):
        for coefficient in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + coefficient * d)
            c = _not_zero(1 + coefficient / c)
            value = value * c * d
        if np.all(np.abs(c * d - 1) < CONVERGED):
            break
    return value


def _not_zero(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < LEAST, LEAST, values)
