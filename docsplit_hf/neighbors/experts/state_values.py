"""Which numbers the arrays of a fitted state may hold: they come from a folder, and its author may be a stranger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..store.keys import LARGEST_VALUE

ROUNDING = 1e-3  # of sums and norms in float32
# The whitening divides by the root of 3e-12 at least; words and logits are far from the others.
LARGEST_WHITENING = 1e6
LARGEST_SHIFT = 100.0  # the logarithm of a ratio of proportions
LARGEST_IDF = 100.0  # one and the logarithm of how many texts there are
LARGEST_WORD_WEIGHT = 1e3  # the logarithm of a frequency, or a difference of two
LARGEST_LOGIT = 1e6  # of a regression that separates its examples


class Range(NamedTuple):
    """The least and the largest value of an array."""

    least: float
    largest: float


UNIT = Range(-1 - ROUNDING, 1 + ROUNDING)  # of vectors of norm 1
SHARE = Range(0.0, 1.0)
RANGES = {
    "mean": Range(-LARGEST_VALUE, LARGEST_VALUE),
    "components": UNIT,
    "whitening": Range(-LARGEST_WHITENING, LARGEST_WHITENING),
    "idf": Range(1 - ROUNDING, LARGEST_IDF),
    "soft": SHARE,
    "shift": Range(-LARGEST_SHIFT, LARGEST_SHIFT),
    "proportions": SHARE,
    "probe": Range(-LARGEST_LOGIT, LARGEST_LOGIT),
    "centers": UNIT,
    "names": UNIT,
    "word_weights": Range(-LARGEST_WORD_WEIGHT, LARGEST_WORD_WEIGHT),
    "vocabulary": Range(-LARGEST_LOGIT, LARGEST_LOGIT),
    "held_out_probabilities": SHARE,
    "held_out_familiarity": SHARE,
}
DISTRIBUTIONS = ("soft", "proportions", "held_out_probabilities")  # where a text has one label


def fault_of_values(arrays: Mapping[str, np.ndarray], several: bool) -> tuple[str, str] | None:
    """The first array whose numbers cannot be right, and what is wrong with them; None if all are possible."""
    for name, array in arrays.items():
        if name not in RANGES or not array.size:
            continue
        least, largest = RANGES[name]
        if not (array.min() >= least and array.max() <= largest):  # false for NaN
            return name, f"outside {least:g} to {largest:g}"
    if several:
        return None
    for name in DISTRIBUTIONS:
        sums = arrays[name].sum(-1, dtype=np.float64)
        if not np.allclose(sums, 1, rtol=0, atol=ROUNDING):
            return name, "no distribution: its rows do not add up to 1"
    if not (arrays["held_out_labels"].sum(1) == 1).all():
        return "held_out_labels", "not one label for each text"
    return None
