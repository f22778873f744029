"""How far a mean, or an accuracy, is to be trusted: 95 % confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95


def summarize_repeats(values: Sequence[float]) -> dict[str, float]:
    """Mean, standard deviation and confidence interval of an experiment that was repeated, by Student's t::

        mean -+ t(0.975, n - 1) std / sqrt(n)

    The interval is about the randomness that differs between the repeats (the seed, the examples that were drawn), for
    the test set at hand. How much depends on the test examples themselves, ``accuracy_interval`` tells.

    Args:
        values: One metric of each repeat.

    Returns:
        ``mean``; ``std`` (n - 1 in the denominator); ``low`` and ``high``, the ends of the 95 % interval; ``repeats``,
        their number n. Of one repeat ``std``, ``low`` and ``high`` are NaN: it tells nothing about others.

    Raises:
        ValueError: If there is no value.

    Example:

        >>> summary = summarize_repeats([0.5, 0.6, 0.7])
        >>> [round(summary[name], 3) for name in ("mean", "std", "low", "high")]
        [0.6, 0.1, 0.352, 0.848]
    """
    from scipy.stats import t

    if len(values) == 0:
        raise ValueError("There are no repeats to summarize: run at least one.")
    array = np.asarray(values, dtype=np.float64)
    repeats, mean = len(array), float(array.mean())
    if repeats == 1:
        return {"mean": mean, "std": math.nan, "low": math.nan, "high": math.nan, "repeats": 1}
    std = float(array.std(ddof=1))
    margin = float(t.ppf((1 + CONFIDENCE) / 2, repeats - 1)) * std / math.sqrt(repeats)
    return {"mean": mean, "std": std, "low": mean - margin, "high": mean + margin, "repeats": repeats}


def accuracy_interval(accuracy: float, examples: int) -> tuple[float, float]:
    """The confidence interval of an accuracy that comes from a limited number of test examples, by Wilson's score.

    It holds for one run, also of a method without any randomness, whose repeats would all be the same.

    Args:
        accuracy: The share of the test examples that were right, from 0 to 1.
        examples: The number of test examples.

    Returns:
        The ends of the 95 % interval, within 0 and 1.

    Raises:
        ValueError: If the accuracy is no share, or there are no examples.

    Example:

        >>> [round(end, 3) for end in accuracy_interval(0.8, 100)]
        [0.711, 0.867]
    """
    from scipy.stats import binomtest

    if not 0 <= accuracy <= 1 or examples < 1:
        raise ValueError(
            f"accuracy must be from 0 to 1 and examples at least 1, got {accuracy} of {examples}: is it in percent?"
        )
    interval = binomtest(round(accuracy * examples), examples).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)
