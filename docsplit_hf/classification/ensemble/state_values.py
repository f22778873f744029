"""Range checks for the arrays and settings of a fitted state, which may come from a stranger's folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...datastore.keys import LARGEST_VALUE

ROUNDING = 1e-3  # of sums and norms in float32
# The whitening divides by the root of 3e-12 at least; words and logits are far from the others.
LARGEST_WHITENING = 1e6
LARGEST_SHIFT = 100.0  # the logarithm of a ratio of proportions
LARGEST_IDF = 100.0  # one and the logarithm of how many texts there are
LARGEST_WORD_WEIGHT = 1e3  # the logarithm of a frequency, or a difference of two
LARGEST_LOGIT = 1e6  # of a regression that separates its examples
SUREST_ERROR_SHARES = ("score", "error", "share", "share_without")
SUREST_ERROR_TEXTS = ("labeled", "answered")
LARGEST_COUNT = 2**53  # of texts: all smaller ones are exact as floats


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


def is_possible(name: str, value: Any) -> bool:
    """Whether a field of a report may have this value; of a field that is not known here, anything is possible."""
    check = _POSSIBLE.get(name)
    return check is None or check(value)


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_text, values))


def _are_shares(values: Any) -> bool:
    return isinstance(values, dict) and all(map(_is_share, values.values()))


def _are_shares_by_error(values: Any) -> bool:
    return _are_shares(values) and all(_is_error(name) for name in values)


def _is_error(name: str) -> bool:
    return re.fullmatch(r"[0-9.e-]+", name) is not None and _is_share(_number(name))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _are_measurements(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_measurement, values))


def _is_measurement(record: Any) -> bool:
    if not isinstance(record, dict) or record.keys() != {"expert", "accuracy", "macro_f1", "log_loss"}:
        return False
    loss = record["log_loss"]
    is_loss = type(loss) in (int, float) and 0 <= loss < math.inf
    return _is_text(record["expert"]) and _is_share(record["accuracy"]) and _is_share(record["macro_f1"]) and is_loss


def _is_interval(values: Any) -> bool:
    return isinstance(values, list) and len(values) in (0, 2) and all(map(_is_share, values))


def _is_surest_error(found: Any) -> bool:
    if found is None:
        return True
    if not isinstance(found, dict) or found.keys() != {*SUREST_ERROR_TEXTS, *SUREST_ERROR_SHARES, "id"}:
        return False
    has_id = found["id"] is None or _is_text(found["id"])
    has_texts = all(_is_text(found[name]) for name in SUREST_ERROR_TEXTS)
    return has_id and has_texts and all(_is_share(found[name]) for name in SUREST_ERROR_SHARES)


_POSSIBLE: dict[str, Callable[[Any], bool]] = {
    "examples": _is_count,
    "documents": _is_count,
    "left_out": _is_count,
    "labels": _are_texts,
    "measured_on": _is_text,
    "texts": _is_count,
    "single": _are_texts,
    "shares": _are_shares,
    "proportions": _are_shares,
    "class_proportions": _is_text,
    "measured": _are_measurements,
    "answered": _are_shares_by_error,
    "least_error": _is_share,
    "surest_error": _is_surest_error,
    "measured_for": _is_text,
    "accuracy_interval": _is_interval,
    "foreign": _is_share,
    "novelty": _is_share,
    "lost": _is_share,
}
