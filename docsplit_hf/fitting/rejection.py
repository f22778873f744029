"""Rejection of texts: guaranteed confidence thresholds (Learn then Test), and out-of-scope detection.

Terms: the closeness of a text is its cosine similarity to the nearest examples. Its familiarity, from 0 to 1, combines
closeness with the probabilities of its labels. Its novelty is the fraction of held-out examples that are more familiar.
A text of a known label is in scope; if it is rejected, it is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np

from ..arrays.keys import exact_search
from ..arrays.snapshot import EQUAL

GUARANTEE_CONFIDENCE = 0.9  # fraction of draws of held-out texts for which a guarantee holds
TESTED_GROUPS = 20  # groups of the most confident texts that are tested
# The tests start at groups that may have so many errors, so that few mislabeled texts do not fail all of them: the
# first choice whose groups are in the more confident half of the texts; the last one may take all texts.
ERRORS_AT_STARTS = ((1, 4), (1,), (0,))
# Forecast of the held-out texts that a guarantee takes: from groups of so many texts or more, up to so many times the
# held-out texts, in steps of 5 %.
FEWEST_TO_FORECAST = 10
MOST_FORECAST_GROWTH = 50
FORECAST_STEPS = 81
BISECTIONS = 44  # until an error rate is known to 1e-13
INTERVAL_TAIL = 0.025  # probability outside a 95 % interval, on one side
EPSILON = 1e-9  # replaces 0 as a parameter of the beta distribution; tolerance of fractions
NEAREST_EXAMPLES = 5  # closeness to examples is the mean over these
NEAREST_DOCUMENTS = 20  # closeness to documents is the mean over these
COMPARISON_SHARPNESS = 4.0  # sharpness of the comparison of closeness to examples and to documents
COMPARED_QUANTILE = 0.1  # of the familiarity of held-out texts; documents below it are counted
# Strict, because different label proportions in the documents also shift familiarity.
OUT_OF_SCOPE_SIGNIFICANCE = 0.001
DEFAULT_LOST_FRACTION = 0.05  # of texts of known labels that may be lost, if some documents are out of scope
HIGHEST_NOVELTY = 0.99  # texts above this are rejected regardless of confidence


def confidence_threshold(
    confidence: np.ndarray,
    right: np.ndarray,
    error: float,
    importance: np.ndarray | None = None,
    failure: float = 1 - GUARANTEE_CONFIDENCE,
) -> float:
    """Find the lowest confidence at which the error rate of answers is guaranteed.

    Growing groups of the most confident texts are tested by the binomial distribution. The tests start at several
    groups, which share ``failure``; a group that passes gives its part to the next one, and one that fails loses it
    (fallback procedure, Wiens 2003; with one start it is fixed sequence testing, section 3 of Angelopoulos et al.
    2021). With the default of ``failure``, the error rate holds for new texts from the same distribution for 9 of 10
    draws of the held-out texts.

    Args:
        confidence: The confidence of the answers to held-out texts, ``(m,)``; 0 for no answer.
        right: Whether the answers are right, bool ``(m,)``.
        error: The error rate to allow, from 0 to 1.
        importance: The result of ``importance_weights``, ``(B, m)``. None: all weights are 1.
        failure: The probability that the error rate does not hold.

    Returns:
        The threshold; infinity if the error rate cannot be guaranteed.
    """
    ranked = np.argsort(-confidence, kind="stable")[: np.count_nonzero(confidence > 0)]
    if not len(ranked):
        return np.inf
    confidence = confidence[ranked]
    importance = np.ones((1, len(right))) if importance is None else importance
    groups = Groups.of(right[ranked], importance[:, ranked])
    starts = _starts(groups.sizes.mean(0), error, failure)
    if not len(starts):
        return np.inf
    threshold = np.inf
    allowed = 0.0
    for count in np.union1d(starts, np.linspace(starts[0], len(ranked), TESTED_GROUPS).astype(int)):
        allowed += failure / len(starts) * (count in starts)
        last = np.searchsorted(-confidence, -confidence[count - 1], side="right") - 1  # with texts of equal confidence
        if allowed and tail_probability(groups.wrong[:, last], groups.sizes[:, last], error).mean() <= allowed:
            threshold = float(confidence[last])
        else:
            allowed = 0.0
    return threshold


def texts_needed(confidence: np.ndarray, right: np.ndarray, error: float, importance: np.ndarray) -> int | None:
    """About how many held-out texts would guarantee ``error`` for some, if as many of their answers were right.

    None if no group of the most confident texts has clearly fewer errors. Arguments as for ``confidence_threshold``.
    """
    ranked = np.argsort(-confidence, kind="stable")[: np.count_nonzero(confidence > 0)]
    groups = Groups.of(right[ranked], importance[:, ranked])
    smallest = min(FEWEST_TO_FORECAST, len(ranked)) - 1
    for factor in np.geomspace(1, MOST_FORECAST_GROWTH, FORECAST_STEPS) if len(ranked) else ():
        passed = (
            tail_probability(groups.wrong * factor, groups.sizes * factor, error).mean(0) <= 1 - GUARANTEE_CONFIDENCE
        )
        if passed[smallest:].any():
            return int(np.ceil(len(right) * factor))
    return None


def _starts(sizes: np.ndarray, error: float, failure: float) -> np.ndarray:
    """Numbers of texts of the groups at which tests start, by the effective sizes ``(m,)`` of all groups."""
    for errors in ERRORS_AT_STARTS:
        most = sizes if errors == ERRORS_AT_STARTS[-1] else sizes[: len(sizes) // 2]
        is_enough = [tail_probability(wrong, most, error) <= failure / len(errors) for wrong in errors]
        if len(most) and np.any(is_enough, axis=1).all():
            return np.argmax(is_enough, axis=1) + 1
    return np.array([], int)


class Groups(NamedTuple):
    """Cumulative statistics over the top 1, 2, ..., m ranked texts, for each of B vectors of importance weights."""

    sizes: np.ndarray  # (B, m): effective sample sizes
    wrong: np.ndarray  # (B, m): number of wrong answers, scaled to the effective sample size

    @classmethod
    def of(cls, right: np.ndarray, importance: np.ndarray) -> Groups:
        """Add up ranked texts with weights w ``(B, m)``; effective sizes are ``(sum w)^2 / sum w^2`` (Kish 1965).

        Texts without weight have size 0, which proves nothing.
        """
        mass = np.cumsum(importance, axis=1)
        wrong_mass = np.cumsum(importance * ~right, axis=1)
        has_mass = mass > 0
        sizes = np.divide(mass**2, np.cumsum(importance**2, axis=1), out=np.zeros_like(mass), where=has_mass)
        wrong = np.divide(sizes * wrong_mass, mass, out=np.zeros_like(mass), where=has_mass)
        return cls(sizes=sizes, wrong=wrong)


def tail_probability(wrong: np.ndarray | float, sizes: np.ndarray | float, error: float) -> np.ndarray:
    """Binomial probability of at most ``wrong`` errors in ``sizes`` texts; both may be fractional."""
    try:
        from scipy.special import betainc
    except ImportError:  # in a small installation, which only answers
        from .incomplete_beta import incomplete_beta as betainc
    rest = np.maximum(sizes - wrong, 0)
    return np.where(rest > 0, betainc(np.maximum(rest, EPSILON), np.asarray(wrong) + 1.0, 1 - error), 1.0)


def importance_weights(targets: np.ndarray, proportions: np.ndarray) -> np.ndarray:
    """Importance weights of held-out texts, ``(B, m)``: they adapt held-out statistics to other label proportions.

    The weight of a text is the proportion of its label among all texts, divided by that among the held-out texts. The
    mean is 1. Without draws (B is 0), all weights are 1, ``(1, m)``.

    Args:
        targets: The labels of the held-out texts, bool ``(m, C)``.
        proportions: B draws of the label proportions among all texts, ``(B, C)``.
    """
    if not len(proportions) or not len(targets):
        return np.ones((1, len(targets)))
    labels = targets.argmax(1)
    held_out_proportions = targets.mean(0)
    importance = proportions[:, labels].astype(np.float64) / held_out_proportions[labels]
    return importance / importance.mean(1, keepdims=True)


def _error_at(probability: Callable[[float], float], wanted: float) -> float:
    """Error rate at which a probability that falls as errors become more frequent has a value, by bisection."""
    low = 0.0
    step = 1.0
    for _ in range(BISECTIONS):
        step /= 2
        if probability(low + step) > wanted:
            low += step
    return low + step / 2


class AccuracyInterval(NamedTuple):
    """Accuracy with its 95 % confidence interval."""

    accuracy: float
    low: float
    high: float


def accuracy_interval(right: np.ndarray, importance: np.ndarray) -> AccuracyInterval:
    """Estimate the accuracy of answers, ``right`` bool ``(m,)``, to texts with importance weights ``(B, m)``.

    The interval is Clopper and Pearson's, with the effective sample size and with tails averaged over the B draws.
    """
    if not len(right):
        return AccuracyInterval(accuracy=0.0, low=0.0, high=1.0)
    groups = Groups.of(right, importance)
    sizes = groups.sizes[:, -1]
    wrong = groups.wrong[:, -1]

    def bound(wrong: np.ndarray, tail: float) -> float:
        """Error rate at which at most ``wrong`` errors have the probability ``tail``."""
        return _error_at(lambda error: tail_probability(wrong, sizes, error).mean(), tail)

    # If all answers are wrong in as many draws as the tail allows, every error rate is possible up to 1; if all are
    # right in so many, down to 0.
    most = 1.0 if (wrong >= sizes).mean() >= INTERVAL_TAIL else bound(wrong, INTERVAL_TAIL)
    least = 0.0
    if (wrong <= 0).mean() < INTERVAL_TAIL:
        least = bound(np.maximum(wrong - 1, EPSILON - 1), 1 - INTERVAL_TAIL)
    return AccuracyInterval(accuracy=float(1 - (wrong / sizes).mean()), low=1 - most, high=1 - least)


def check_error(error: float) -> None:
    """Raise ValueError if ``reject`` is not an error rate between 0 and 1."""
    if not isinstance(error, Real) or not 0 < error < 1:
        raise ValueError(f"reject must be the share of wrong answers to allow, between 0 and 1, got {error!r}.")


@dataclass(frozen=True)
class RejectionLimits:
    """What the option ``reject`` promises; a number alone is the error rate.

    Args:
        error: The error rate to allow, such as 0.05: texts whose answer is too uncertain for it get no label.
        novelty: The fraction of texts of known labels that may be rejected, such as 0.05, to reject more texts of
            others. The least familiar texts are rejected. False: reject only texts that are less familiar than 99 %
            of the held-out examples. None: 0.05 if ``fit`` found documents of other labels, else False.
        each_label: Whether the error rate holds among the answers with each label, not only among all answers
            together. Takes more examples of each label.

    Raises:
        ValueError: If a rate is out of its range.
    """

    error: float
    novelty: float | None = None
    each_label: bool = False

    def __post_init__(self) -> None:
        check_error(self.error)
        lost = self.novelty
        if lost is not None and (not isinstance(lost, Real) or not 0 <= lost < 1 or lost is True):
            raise ValueError(
                "novelty must be the share of texts of the known labels that may get no answer, such as 0.05, or "
                f"False, got {lost!r}."
            )


def least_error(importance: np.ndarray, failure: float = 1 - GUARANTEE_CONFIDENCE) -> float:
    """Lowest error rate that held-out texts can guarantee, if all answers are right; ``importance`` is ``(B, m)``.

    A lower ``error`` needs more held-out texts. ``failure``: the probability that the error rate does not hold.
    """
    if not importance.shape[1]:
        return 1.0
    sizes = Groups.of(np.ones(importance.shape[1], bool), importance).sizes[:, -1]
    return _error_at(lambda error: np.power(1 - error, sizes).mean(), failure)


def min_held_out_texts(lost: float) -> int:
    """Held-out texts needed for a guaranteed limit that at most a fraction ``lost`` of the texts is above."""
    return int(np.ceil(np.log(1 - GUARANTEE_CONFIDENCE) / np.log(1 - lost)))


def closeness(queries: np.ndarray, examples: np.ndarray, exclude_copies: bool = False) -> np.ndarray:
    """Mean cosine to the 5 nearest examples, ``(Q,)``.

    Args:
        queries: Vectors of texts, ``(Q, D)``, of norm 1.
        examples: Vectors of examples, ``(n, D)``, of norm 1.
        exclude_copies: Whether to leave out examples that are copies of the query.
    """
    near = np.zeros(len(queries))
    rows = np.arange(len(queries))
    depth = NEAREST_EXAMPLES + exclude_copies
    while len(rows):
        count = min(depth, len(examples))
        distances = exact_search(queries[rows], examples, count)[0]
        others = distances > (EQUAL if exclude_copies else -1)
        others &= np.cumsum(others, axis=1) <= NEAREST_EXAMPLES
        found = others.sum(1)
        near[rows] = ((1 - distances / 2) * others).sum(1) / np.maximum(found, 1)  # |a - b|^2 = 2 - 2 cos
        rows = rows[(found < NEAREST_EXAMPLES) & (count < len(examples))]  # texts with many copies
        depth *= 4
    return near


def familiarity(
    probabilities: np.ndarray,
    neighbor_label_proportions: np.ndarray,
    closeness: np.ndarray,
    closeness_to_documents: np.ndarray | None = None,
) -> np.ndarray:
    """Familiarity ``max p(y) max s(y) max(c, 0)^2`` of N texts, from 0 to 1: low for texts of labels without examples.

    Each of the three factors detects some out-of-scope texts that the others miss. If some documents are out of scope,
    out-of-scope texts are nearer to documents than to examples. Then ``closeness_to_documents`` is given, and
    familiarity is multiplied by ``exp(4 (c - d - 1))``.

    Args:
        probabilities: The probabilities p of the ensemble, ``(N, C)``.
        neighbor_label_proportions: The label proportions s in the votes of the neighbors, ``(N, C)``.
        closeness: The closeness c to the examples, ``(N,)``.
        closeness_to_documents: The closeness d to the documents, ``(N,)``. None: documents are not compared.
    """
    familiar = probabilities.max(1) * neighbor_label_proportions.max(1) * closeness.clip(0, 1) ** 2
    if closeness_to_documents is None:
        return familiar
    nearer = np.maximum(closeness, 0) - np.maximum(closeness_to_documents, 0)
    # Clip: rounding can push the difference of the cosines above 1.
    return familiar * np.exp(COMPARISON_SHARPNESS * (nearer - 1)).clip(max=1)


def estimate_out_of_scope_fraction(documents: np.ndarray, held_out: np.ndarray, importance: np.ndarray) -> float:
    """Estimate the fraction of out-of-scope documents; 0 if chance may explain the difference.

    Counts the documents with a familiarity below the 10 % quantile of the held-out texts. Without out-of-scope
    documents, their number has a beta-binomial distribution; the estimate is the excess over its expectation.

    Args:
        documents: The familiarity of documents, ``(N,)``.
        held_out: The familiarity of held-out texts, ``(m,)``.
        importance: The result of ``importance_weights`` for the held-out texts, ``(B, m)``.
    """
    from scipy.stats import betabinom  # here, as it takes a third of a second to import

    order = np.argsort(held_out, kind="stable")
    groups = Groups.of(np.ones(len(order), bool), importance[:, order])
    fraction_below = (np.cumsum(importance[:, order], axis=1) / importance.sum(1, keepdims=True)).mean(0)
    place = int(np.searchsorted(fraction_below, COMPARED_QUANTILE - EPSILON))
    size = float(groups.sizes[:, -1].mean())
    rank = fraction_below[place] * size  # in a sample of that effective size
    below = int(np.count_nonzero(documents < held_out[order[place]]))
    if betabinom.sf(below - 1, len(documents), rank, max(size + 1 - rank, EPSILON)) > OUT_OF_SCOPE_SIGNIFICANCE:
        return 0.0
    excess = max(below / len(documents) - fraction_below[place], 0)
    return float(excess / max(1 - fraction_below[place], EPSILON))


def novelty(familiarity: np.ndarray, held_out_familiarity: np.ndarray) -> np.ndarray:
    """Fraction of held-out examples, with ``held_out_familiarity`` ``(m,)``, that are more familiar than a text."""
    familiar = np.concatenate([[0.0], np.sort(held_out_familiarity), [1.0]])
    return 1 - np.interp(familiarity, familiar, np.linspace(0, 1, len(familiar)))


def guaranteed_limit(values: np.ndarray, outside: float, importance: np.ndarray) -> float:
    """Find the lowest limit that at most a fraction ``outside`` of new texts is above.

    The limit holds for 9 of 10 draws of the held-out texts.

    Args:
        values: A value of each held-out text, from 0 to 1, such as its novelty, ``(m,)``.
        outside: The fraction of texts that may be above the limit.
        importance: The result of ``importance_weights`` for the held-out texts, ``(B, m)``.

    Returns:
        The limit; 1 if the held-out texts are too few to guarantee one.
    """
    order = np.argsort(-values, kind="stable")
    importance = importance[:, order]
    size = Groups.of(np.ones(len(order), bool), importance).sizes[:, [-1]]
    fraction_above = (np.cumsum(importance, axis=1) - importance) / importance.sum(1, keepdims=True)
    is_guaranteed = tail_probability(fraction_above * size, size, outside).mean(0) <= 1 - GUARANTEE_CONFIDENCE
    # After the first failure, nothing is guaranteed.
    guaranteed_count = len(is_guaranteed) if is_guaranteed.all() else int(np.argmin(is_guaranteed))
    return float(values[order[guaranteed_count - 1]]) if guaranteed_count else 1.0


def confidence(probabilities: np.ndarray, novelty: np.ndarray, novelty_limit: float = HIGHEST_NOVELTY) -> np.ndarray:
    """Largest of the probabilities ``(N, C)``, float32 ``(N,)``; 0 for texts with a novelty above the limit."""
    return np.where(novelty > novelty_limit, 0, probabilities.max(1)).astype(
        np.float32
    )  # the dtype of held-out probabilities
