"""From which confidence on a classifier answers, so that its answers are rarely wrong (Learn then Test)."""

from __future__ import annotations

from numbers import Real

import numpy as np
from scipy.stats import binom

CERTAINTY = 0.9  # how sure the promise is: so often, over draws of the held-out texts, it holds
TESTS = 20
ERRORS_AT_FIRST = 1  # that the first and most confident of the tested groups may have: one wrong label is no verdict
SHARE_AT_FIRST = 10  # it has a tenth of the texts, at least: a few wrong labels anywhere are none, either


def answer_level(confidence: np.ndarray, right: np.ndarray, error: float) -> float:
    """The lowest confidence from which on at most a share ``error`` of the answers is wrong; infinity if there is none.

    ``confidence`` and ``right`` are ``(m,)``, of texts that were held out; confidence 0 is no answer. Groups of the
    most confident texts, each larger than the one before, are tested by the binomial distribution until one fails
    (fixed sequence testing, section 3 of Angelopoulos et al. 2021): in 9 of 10 draws of these texts, what is promised
    holds for new ones like them.
    """
    ranked = np.argsort(-confidence, kind="stable")[: np.count_nonzero(confidence > 0)]
    confidence, wrong = confidence[ranked], np.cumsum(~right[ranked])
    level = np.inf
    for count in _tested_counts(len(ranked), error):
        last = np.searchsorted(-confidence, -confidence[count - 1], side="right") - 1  # equal confidence, equal fate
        if binom.cdf(wrong[last], last + 1, error) > 1 - CERTAINTY:
            break
        level = float(confidence[last])
    return level


def check_error(error: float) -> None:
    """Refuse what is no share of wrong answers."""
    if not isinstance(error, Real) or not 0 < error < 1:
        raise ValueError(f"reject must be the share of wrong answers to allow, between 0 and 1, got {error!r}.")


def least_error(count: int) -> float:
    """The lowest error that ``count`` held-out texts can guarantee, if all their answers are right."""
    return float(1 - (1 - CERTAINTY) ** (1 / count)) if count else 1.0


def _tested_counts(total: int, error: float) -> list[int]:
    counts = np.arange(1, total + 1)
    enough = counts[binom.cdf(ERRORS_AT_FIRST, counts, error) <= 1 - CERTAINTY]
    first = max(enough[0], total // SHARE_AT_FIRST) if len(enough) else total
    return np.unique(np.linspace(first, total, TESTS).astype(int)).tolist() if total else []
