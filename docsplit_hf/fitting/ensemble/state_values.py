"""Valid ranges of the arrays and settings of a fitted state from an untrusted folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...arrays.keys import LARGEST_VALUE

SUM_TOLERANCE = 1e-3  # of sums and norms of float32 values
LARGEST_WHITENING = 1e6  # the whitening divides by the root of 3e-12 at least
LARGEST_SHIFT = 100.0  # the logarithm of a ratio of proportions
LARGEST_IDF = 100.0  # 1 plus the logarithm of the number of texts
LARGEST_COUNT = 2**53  # of texts: smaller integers are exact as floats
SUREST_ERROR_FRACTIONS = ("score", "error", "share", "share_without")
SUREST_ERROR_TEXTS = ("labeled", "answered")


class Range(NamedTuple):
    """Smallest and largest value of an array."""

    least: float
    largest: float


FRACTION = Range(0.0, 1.0)
UNLIMITED = Range(-math.inf, math.inf)
# Arrays that all experts share; Expert.arrays specifies those of each expert.
SHARED_RANGES = {
    "mean": Range(-LARGEST_VALUE, LARGEST_VALUE),
    "components": Range(-1 - SUM_TOLERANCE, 1 + SUM_TOLERANCE),
    "whitening": Range(-LARGEST_WHITENING, LARGEST_WHITENING),
    "idf": Range(1 - SUM_TOLERANCE, LARGEST_IDF),
    "soft": FRACTION,
    "shift": Range(-LARGEST_SHIFT, LARGEST_SHIFT),
    "proportions": FRACTION,
    "held_out_probabilities": FRACTION,
    "held_out_familiarity": FRACTION,
}
DISTRIBUTIONS = ("soft", "proportions", "held_out_probabilities")  # rows sum to 1 if a text has one label


class Fault(NamedTuple):
    """Invalid array, and the reason."""

    name: str
    reason: str


def fault_of_distributions(arrays: Mapping[str, np.ndarray], multi_label: bool) -> Fault | None:
    """Find the first array that should have a distribution over labels in each row and does not; None if all do."""
    if multi_label:
        return None
    for name in DISTRIBUTIONS:
        sums = arrays[name].sum(-1, dtype=np.float64)
        if not np.allclose(sums, 1, rtol=0, atol=SUM_TOLERANCE):
            return Fault(name, "no distribution: its rows do not add up to 1")
    if not (arrays["held_out_labels"].sum(1) == 1).all():
        return Fault("held_out_labels", "not one label for each text")
    return None


def is_possible(name: str, value: Any) -> bool:
    """Return whether a field of a report may have this value; fields without a check may have any."""
    check = _POSSIBLE.get(name)
    return check is None or check(value)


def _is_fraction(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_text, values))


def _are_fractions(values: Any) -> bool:
    return isinstance(values, dict) and all(map(_is_fraction, values.values()))


def _are_fractions_by_error(values: Any) -> bool:
    return _are_fractions(values) and all(_is_error(name) for name in values)


def _are_counts_by_error(values: Any) -> bool:
    return isinstance(values, dict) and all(_is_error(name) and _is_count(count) for name, count in values.items())


def _are_label_outcomes(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_label_outcome, values))


def _is_label_outcome(record: Any) -> bool:
    if not isinstance(record, dict) or record.keys() != {"label", "answered", "wrong"}:
        return False
    return _is_text(record["label"]) and _is_count(record["answered"]) and _is_count(record["wrong"])


def _is_error(name: str) -> bool:
    return re.fullmatch(r"[0-9.e-]+", name) is not None and _is_fraction(_number(name))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _are_paths(values: Any) -> bool:
    return isinstance(values, list) and all(_are_texts(path) and path for path in values)


def _are_levels(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_level, values))


def _is_level(record: Any) -> bool:
    if not isinstance(record, dict) or record.keys() != {"nodes", "accuracy", "macro_f1", "answered"}:
        return False
    are_metrics = _is_fraction(record["accuracy"]) and _is_fraction(record["macro_f1"])
    return _is_count(record["nodes"]) and are_metrics and _are_fractions_by_error(record["answered"])


def _are_measurements(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_measurement, values))


def _is_measurement(record: Any) -> bool:
    if not isinstance(record, dict) or record.keys() != {"expert", "accuracy", "macro_f1", "log_loss"}:
        return False
    loss = record["log_loss"]
    is_loss = type(loss) in (int, float) and 0 <= loss < math.inf
    return (
        _is_text(record["expert"]) and _is_fraction(record["accuracy"]) and _is_fraction(record["macro_f1"]) and is_loss
    )


def _is_interval(values: Any) -> bool:
    return isinstance(values, list) and len(values) in (0, 2) and all(map(_is_fraction, values))


def _is_surest_error(found: Any) -> bool:
    if found is None:
        return True
    if not isinstance(found, dict) or found.keys() != {*SUREST_ERROR_TEXTS, *SUREST_ERROR_FRACTIONS, "id"}:
        return False
    has_id = found["id"] is None or _is_text(found["id"])
    has_texts = all(_is_text(found[name]) for name in SUREST_ERROR_TEXTS)
    return has_id and has_texts and all(_is_fraction(found[name]) for name in SUREST_ERROR_FRACTIONS)


_POSSIBLE: dict[str, Callable[[Any], bool]] = {
    "examples": _is_count,
    "documents": _is_count,
    "left_out": _is_count,
    "labels": _are_texts,
    "measured_on": _is_text,
    "texts": _is_count,
    "single": _are_texts,
    "shares": _are_fractions,
    "proportions": _are_fractions,
    "class_proportions": _is_text,
    "changed_answers": _is_fraction,
    "measured": _are_measurements,
    "answered": _are_fractions_by_error,
    "needed": _are_counts_by_error,
    "by_label": _are_label_outcomes,
    "least_error": _is_fraction,
    "surest_error": _is_surest_error,
    "measured_for": _is_text,
    "accuracy_interval": _is_interval,
    "foreign": _is_fraction,
    "novelty": _is_fraction,
    "lost": _is_fraction,
    "versions": _is_count,
    "version_groups": _is_count,
    "contradictory": _is_count,
    "agreeing": _is_count,
    "version_fraction": _is_fraction,
    "paths": _are_paths,
    "levels": _are_levels,
}
