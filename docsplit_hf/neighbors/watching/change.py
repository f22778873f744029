"""Change: the means of two periods, and an interval of their difference."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

CERTAINTY = 1 - 0.05 / 3  # of three measures, one is off by chance in at most 5 % of all reports


@dataclass(frozen=True)
class Change:
    """A mean over the texts of two periods; None of a period where it is not known.

    Attributes:
        now, then: The means.
        low, high: The 98.3 % interval of now less then. None: a period has fewer than two texts, or no spread.
    """

    now: float | None
    then: float | None
    low: float | None = None
    high: float | None = None

    @property
    def is_certain(self) -> bool:
        """Whether the interval is off 0."""
        return self.low is not None and not self.low <= 0 <= self.high


def change_of(now: np.ndarray, then: np.ndarray) -> Change:
    """The change of a measure, ``(n,)`` now and ``(m,)`` then; the interval is Welch's, by which spreads may differ."""
    from scipy.stats import ttest_ind

    now, then = now.astype(np.float64), then.astype(np.float64)
    means = [float(values.mean()) if len(values) else None for values in (now, then)]
    if min(len(now), len(then)) < 2 or np.ptp(now) == np.ptp(then) == 0:
        return Change(*means)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that one of the two has no spread
        interval = ttest_ind(now, then, equal_var=False).confidence_interval(CERTAINTY)
    return Change(*means, float(interval.low), float(interval.high))
