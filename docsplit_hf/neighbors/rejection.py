"""When a classifier should not answer: the confidence it needs (Learn then Test), and how familiar a text is."""

from __future__ import annotations

from numbers import Real

import numpy as np

from .store.duplicates import EQUAL
from .store.keys import exact_search

CERTAINTY = 0.9  # the share of draws of the held-out texts in which the promise holds
TESTS = 20
ERRORS_AT_FIRST = 1  # allowed in the first and most confident group: one wrong label must not end the test
SHARE_AT_FIRST = 10  # that group has at least a tenth of the texts
NEAREST = 5
NOVEL = 0.99  # a text that is less familiar than 99 % of the held-out examples gets no answer, however sure it seems


def answer_level(confidence: np.ndarray, right: np.ndarray, error: float) -> float:
    """The lowest confidence at which at most a share ``error`` of the answers is wrong; infinity if there is none.

    ``confidence`` and ``right`` are ``(m,)``, of held-out texts; confidence 0 is no answer. Growing groups of the most
    confident texts are tested by the binomial distribution until one fails (fixed sequence testing, section 3 of
    Angelopoulos et al. 2021). In 9 of 10 draws of the held-out texts the level holds for new texts like them.
    """
    from scipy.stats import binom  # a third of a second, which importing docsplit_hf need not wait for

    ranked = np.argsort(-confidence, kind="stable")[: np.count_nonzero(confidence > 0)]
    confidence, wrong = confidence[ranked], np.cumsum(~right[ranked])
    total, level = len(ranked), np.inf
    enough = np.flatnonzero(binom.cdf(ERRORS_AT_FIRST, np.arange(1, total + 1), error) <= 1 - CERTAINTY)
    first = max(enough[0] + 1, total // SHARE_AT_FIRST) if len(enough) else total
    for count in np.unique(np.linspace(first, total, TESTS).astype(int)) if total else ():
        last = np.searchsorted(-confidence, -confidence[count - 1], side="right") - 1  # equal confidence, equal fate
        if binom.cdf(wrong[last], last + 1, error) > 1 - CERTAINTY:
            break
        level = float(confidence[last])
    return level


def check_error(error: float) -> None:
    """Refuse a ``reject`` that is not a share of wrong answers."""
    if not isinstance(error, Real) or not 0 < error < 1:
        raise ValueError(f"reject must be the share of wrong answers to allow, between 0 and 1, got {error!r}.")


def least_error(count: int) -> float:
    """The lowest error that ``count`` held-out texts can guarantee, if all their answers are right."""
    return float(1 - (1 - CERTAINTY) ** (1 / count)) if count else 1.0


def closeness(queries: np.ndarray, examples: np.ndarray, without_equal: bool = False) -> np.ndarray:
    """The mean cosine ``(Q,)`` of the 5 nearest examples, ``without_equal`` no copies; all are ``(., D)`` of norm 1."""
    near = np.zeros(len(queries))
    rows, deeper = np.arange(len(queries)), NEAREST + without_equal
    while len(rows):
        count = min(deeper, len(examples))
        distances = exact_search(queries[rows], examples, count)[0]
        others = distances > (EQUAL if without_equal else -1)
        others &= np.cumsum(others, axis=1) <= NEAREST
        found = others.sum(1)
        near[rows] = ((1 - distances / 2) * others).sum(1) / np.maximum(found, 1)  # |a - b|^2 = 2 - 2 cos
        rows = rows[(found < NEAREST) & (count < len(examples))]  # of texts with many copies
        deeper *= 4
    return near


def familiarity(probabilities: np.ndarray, shares: np.ndarray, closeness: np.ndarray) -> np.ndarray:
    """``max p(y) max s(y) max(c, 0)^2``, from 0 to 1: low for texts of a class that has no examples.

    p ``(N, C)`` are the probabilities of the mixture, s ``(N, C)`` the shares of the labels among the neighbors, c
    ``(N,)`` is ``closeness``. Each of the three misses some texts of unknown classes that the others find.
    """
    return probabilities.max(1) * shares.max(1) * np.maximum(closeness, 0) ** 2


def novelty(familiarity: np.ndarray, of_examples: np.ndarray) -> np.ndarray:
    """From 0 to 1, the share of held-out examples that are more familiar than a text; interpolated between two."""
    familiar = np.concatenate([[0.0], np.sort(of_examples), [1.0]])
    return 1 - np.interp(familiarity, familiar, np.linspace(0, 1, len(familiar)))


def confidence(probabilities: np.ndarray, novelty: np.ndarray) -> np.ndarray:
    """How sure an answer is, ``(N,)``: the largest of the probabilities ``(N, C)``, and 0 for a novel text."""
    return np.where(novelty > NOVEL, 0, probabilities.max(1)).astype(np.float32)  # as held-out probabilities are kept
