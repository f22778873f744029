"""Rejection of texts: confidence thresholds with a guarantee (Learn then Test), and out-of-scope detection."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from ..datastore.duplicates import EQUAL
from ..datastore.keys import exact_search

CERTAINTY = 0.9  # the fraction of draws of held-out texts for which a guarantee holds
TESTS = 20
ERRORS_AT_FIRST = 1  # allowed in the first and most confident group, so that one wrong label does not end the test
SHARE_AT_FIRST = 10  # the first group has at least a tenth of the texts
ONE_SIDE = 0.025  # probability outside a 95 % interval, on one side
TINY = 1e-9  # replaces 0 as a parameter of the beta distribution
NEAREST = 5  # examples that closeness is the mean over
NEAREST_DOCUMENTS = 20
BESIDE_DOCUMENTS = 4.0  # sharpness of the comparison of closeness to examples and to documents
LEAST_FAMILIAR = 0.1  # quantile of the held-out texts' familiarity at which documents are compared with them
BY_CHANCE = 0.001  # p-value; low, as documents with other label proportions than the held-out texts differ slightly too
LOST = 0.05  # fraction of texts of known classes to lose at most, if documents are of other classes
NOVEL = 0.99  # texts that are less familiar than 99 % of the held-out examples are rejected at any confidence


def confidence_threshold(
    confidence: np.ndarray, right: np.ndarray, error: float, counts: np.ndarray | None = None
) -> float:
    """Find the lowest confidence at which the error rate of answers is guaranteed.

    Growing groups of the most confident texts are tested by the binomial distribution until one fails (fixed sequence
    testing, section 3 of Angelopoulos et al. 2021). For 9 of 10 draws of the held-out texts, the guarantee holds for
    new texts like them.

    Args:
        confidence: Of held-out texts, ``(m,)``; 0 for no answer.
        right: Whether their answers are right, bool ``(m,)``.
        error: The error rate to allow.
        counts: ``text_counts``, ``(B, m)``. None: each text counts 1.

    Returns:
        The confidence; infinity if no error rate can be guaranteed.
    """
    ranked = np.argsort(-confidence, kind="stable")[: np.count_nonzero(confidence > 0)]
    if not len(ranked):
        return np.inf
    confidence = confidence[ranked]
    groups = Groups.of(right[ranked], np.ones((1, len(right)))[:, ranked] if counts is None else counts[:, ranked])
    total = len(ranked)
    enough = np.flatnonzero(tail_probability(ERRORS_AT_FIRST, groups.sizes.mean(0), error) <= 1 - CERTAINTY)
    first = max(enough[0] + 1, total // SHARE_AT_FIRST) if len(enough) else total
    level = np.inf
    for count in np.unique(np.linspace(first, total, TESTS).astype(int)):
        last = np.searchsorted(-confidence, -confidence[count - 1], side="right") - 1  # texts of equal confidence too
        if tail_probability(groups.wrong[:, last], groups.sizes[:, last], error).mean() > 1 - CERTAINTY:
            break
        level = float(confidence[last])
    return level


class Groups(NamedTuple):
    """The groups of the first 1, 2, ..., m of ranked texts, for B draws of their counts."""

    sizes: np.ndarray  # (B, m): effective sample sizes
    wrong: np.ndarray  # (B, m): the number of wrong answers at that size

    @classmethod
    def of(cls, right: np.ndarray, counts: np.ndarray) -> Groups:
        """Groups of texts with the counts c; the effective sample size is ``(sum c)^2 / sum c^2`` (Kish 1965)."""
        mass = np.cumsum(counts, axis=1)
        sizes = mass**2 / np.cumsum(counts**2, axis=1)
        return cls(sizes=sizes, wrong=sizes * np.cumsum(counts * ~right, axis=1) / mass)


def tail_probability(wrong: np.ndarray | float, sizes: np.ndarray | float, error: float) -> np.ndarray:
    """The binomial probability of at most ``wrong`` errors in ``sizes`` texts; neither must be a whole number."""
    rest = np.maximum(sizes - wrong, 0)
    return np.where(rest > 0, betainc(np.maximum(rest, TINY), np.asarray(wrong) + 1.0, 1 - error), 1.0)


def text_counts(targets: np.ndarray, proportions: np.ndarray) -> np.ndarray:
    """The number of texts that each held-out one represents, ``(B, m)``, 1 on average; all 1 if B is 0.

    Args:
        targets: The labels of the held-out texts, bool ``(m, C)``.
        proportions: B draws of the uncertain proportions of the labels among all texts, ``(B, C)``.
    """
    if not len(proportions) or not len(targets):
        return np.ones((1, len(targets)))
    labels = targets.argmax(1)
    held_out_proportions = targets.mean(0)
    counts = proportions[:, labels].astype(np.float64) / held_out_proportions[labels]
    return counts / counts.mean(1, keepdims=True)


class AccuracyInterval(NamedTuple):
    """Accuracy, and its 95 % interval."""

    accuracy: float
    low: float
    high: float


def accuracy_interval(right: np.ndarray, counts: np.ndarray) -> AccuracyInterval:
    """The accuracy of answers, bool ``(m,)``, to texts with ``counts`` ``(B, m)``.

    The interval is Clopper and Pearson's, with the effective sample size, and tails averaged over the B draws.
    """
    from scipy.optimize import brentq

    if not len(right):
        return AccuracyInterval(accuracy=0.0, low=0.0, high=1.0)
    groups = Groups.of(right, counts)
    sizes = groups.sizes[:, -1]
    wrong = groups.wrong[:, -1]

    def bound(wrong: np.ndarray, tail: float) -> float:
        """The error rate at which at most ``wrong`` errors have the probability ``tail``."""
        return float(brentq(lambda error: tail_probability(wrong, sizes, error).mean() - tail, 0.0, 1.0))

    most = 1.0 if (wrong >= sizes).all() else bound(wrong, ONE_SIDE)
    least = 0.0 if (wrong <= 0).all() else bound(np.maximum(wrong - 1, TINY - 1), 1 - ONE_SIDE)
    return AccuracyInterval(accuracy=float(1 - (wrong / sizes).mean()), low=1 - most, high=1 - least)


def check_error(error: float) -> None:
    """Refuse a ``reject`` that is not an error rate."""
    if not isinstance(error, Real) or not 0 < error < 1:
        raise ValueError(f"reject must be the share of wrong answers to allow, between 0 and 1, got {error!r}.")


def check_lost(novelty: float) -> None:
    """Refuse a ``novelty`` that is neither a fraction of texts to lose nor False."""
    if not isinstance(novelty, Real) or not 0 <= novelty < 1 or novelty is True:
        raise ValueError(
            "novelty must be the share of texts of the known labels that may get no answer, such as 0.05, or False, "
            f"got {novelty!r}."
        )


def least_error(counts: np.ndarray) -> float:
    """The lowest error rate that held-out texts with ``counts`` ``(B, m)`` can guarantee, if all answers are right."""
    from scipy.optimize import brentq

    if not counts.shape[1]:
        return 1.0
    sizes = Groups.of(np.ones(counts.shape[1], bool), counts).sizes[:, -1]
    return float(brentq(lambda error: np.power(1 - error, sizes).mean() - (1 - CERTAINTY), 0.0, 1.0))


def least_held_out(lost: float) -> int:
    """The number of held-out texts needed to guarantee that at most a fraction ``lost`` of the known texts is lost."""
    return int(np.ceil(np.log(1 - CERTAINTY) / np.log(1 - lost)))


def closeness(queries: np.ndarray, examples: np.ndarray, without_equal: bool = False) -> np.ndarray:
    """The mean cosine to the 5 nearest examples, ``(Q,)``.

    Args:
        queries: ``(Q, D)`` of norm 1.
        examples: ``(n, D)`` of norm 1.
        without_equal: Whether to leave out copies of the query.
    """
    near = np.zeros(len(queries))
    rows = np.arange(len(queries))
    deeper = NEAREST + without_equal
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


def familiarity(
    probabilities: np.ndarray,
    neighbor_label_proportions: np.ndarray,
    closeness: np.ndarray,
    to_documents: np.ndarray | None = None,
) -> np.ndarray:
    """``max p(y) max s(y) max(c, 0)^2``, from 0 to 1: low for texts of a class without examples.

    Each of the three factors misses some out-of-scope texts that the others find. If the documents are of other classes
    too, out-of-scope texts are nearer to documents than to examples: with ``to_documents`` d, familiarity is multiplied
    by ``exp(4 (c - d - 1))``.

    Args:
        probabilities: p, of the ensemble, ``(N, C)``.
        neighbor_label_proportions: s, the proportions of the labels in the votes of the neighbors, ``(N, C)``.
        closeness: c, to the examples, ``(N,)``.
        to_documents: d, the closeness to the documents, ``(N,)``.
    """
    familiar = probabilities.max(1) * neighbor_label_proportions.max(1) * closeness.clip(0, 1) ** 2
    if to_documents is None:
        return familiar
    nearer = np.maximum(closeness, 0) - np.maximum(to_documents, 0)
    return familiar * np.exp(BESIDE_DOCUMENTS * (nearer - 1)).clip(max=1)  # cosines are rounded


def foreign_share(documents: np.ndarray, held_out: np.ndarray, counts: np.ndarray) -> float:
    """Estimate the fraction of out-of-scope documents; 0 if chance may explain the difference.

    The estimate is the fraction of documents that are less familiar than nine of ten held-out texts. Without
    out-of-scope documents, their number has a beta-binomial distribution.

    Args:
        documents: The familiarity of documents, ``(N,)``.
        held_out: The familiarity of held-out texts, ``(m,)``.
        counts: ``text_counts`` of the held-out texts, ``(B, m)``.
    """
    from scipy.stats import betabinom  # here, as it takes a third of a second to import

    order = np.argsort(held_out, kind="stable")
    groups = Groups.of(np.ones(len(order), bool), counts[:, order])
    share_below = (np.cumsum(counts[:, order], axis=1) / counts.sum(1, keepdims=True)).mean(0)
    place = int(np.searchsorted(share_below, LEAST_FAMILIAR - TINY))
    size = float(groups.sizes[:, -1].mean())
    rank = share_below[place] * size  # in a sample of that size with equal counts
    below = int(np.count_nonzero(documents < held_out[order[place]]))
    if betabinom.sf(below - 1, len(documents), rank, max(size + 1 - rank, TINY)) > BY_CHANCE:
        return 0.0
    return float(max(below / len(documents) - share_below[place], 0) / max(1 - share_below[place], TINY))


def novelty(familiarity: np.ndarray, of_examples: np.ndarray) -> np.ndarray:
    """The fraction of held-out examples that are more familiar than a text, from 0 to 1; interpolated."""
    familiar = np.concatenate([[0.0], np.sort(of_examples), [1.0]])
    return 1 - np.interp(familiarity, familiar, np.linspace(0, 1, len(familiar)))


def most_novel(novelty: np.ndarray, lost: float, counts: np.ndarray) -> float:
    """The highest novelty that gets an answer, if at most a fraction ``lost`` of the known texts may be rejected.

    It is the lowest limit that few enough held-out texts exceed: for 9 of 10 draws of the held-out texts, no more of
    the known texts are lost.

    Args:
        novelty: Of held-out texts, ``(m,)``.
        lost: The fraction of known texts that may be rejected.
        counts: ``text_counts`` of the held-out texts, ``(B, m)``.

    Returns:
        The limit; 1 if the held-out texts are too few to guarantee it.
    """
    order = np.argsort(-novelty, kind="stable")  # most novel first
    counts = counts[:, order]
    size = Groups.of(np.ones(len(order), bool), counts).sizes[:, [-1]]
    shares = (np.cumsum(counts, axis=1) - counts) / counts.sum(1, keepdims=True)  # the fraction of more novel texts
    kept = tail_probability(shares * size, size, lost).mean(0) <= 1 - CERTAINTY
    possible = int(np.argmin(kept)) if not kept.all() else len(kept)  # higher losses are not guaranteed either
    return float(novelty[order[possible - 1]]) if possible else 1.0


def confidence(probabilities: np.ndarray, novelty: np.ndarray, most_novel: float = NOVEL) -> np.ndarray:
    """The largest of the probabilities ``(N, C)``, and 0 for texts with too high a novelty, float32 ``(N,)``."""
    return np.where(novelty > most_novel, 0, probabilities.max(1)).astype(np.float32)  # the dtype of held-out ones
