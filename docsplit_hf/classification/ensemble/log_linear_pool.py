"""The mixture of experts: a product of their distributions, each to the power of its weight (log-linear pool).

    p(y | x)  ~  exp( sum_e w_e s_e(y | x) + b(y) )

with the logits ``s_e``, and the shift b from the proportions of the labels among the examples to those among all texts;
log odds without a shift where a text may have several labels. With few examples a sum of distributions, as in
equation 3 of Liang et al. 2023, gives a confident expert its say whatever the others know; a product asks all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

ClassProportions = Literal["estimated", "uniform"] | Mapping[str, float]
ALIKE = 0.9  # of as many examples as any label has: copies are kept once
LEAST_PROPORTION = 1e-4  # of a label that somebody says is never there: an example of it may be


def smoothed(proportions: np.ndarray) -> np.ndarray:
    """Half way to equal proportions, as an estimate from few labels may be far off: ``(p + 1 / C) / 2``."""
    return (proportions + 1 / len(proportions)) / 2


def given_proportions(wanted: ClassProportions, names: Sequence[str]) -> np.ndarray | None:
    """The proportions ``(C,)`` of the labels ``names`` where they are given; None where they are to be estimated."""
    if wanted == "estimated":
        return None
    if wanted == "uniform":
        return np.full(len(names), 1 / len(names))
    if not isinstance(wanted, Mapping):
        raise ValueError(f"class_proportions must be 'estimated', 'uniform' or a number by label, got {wanted!r}.")
    if missing := [name for name in names if name not in wanted]:
        raise ValueError(f"class_proportions says nothing of {missing[0]!r}: give a number for each label.")
    values = np.array([wanted[name] for name in names], dtype=np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
        raise ValueError(f"class_proportions must be numbers from 0 of which one is larger, got {dict(wanted)!r}.")
    values = np.maximum(values / values.sum(), LEAST_PROPORTION)
    return values / values.sum()


def is_drawn_by_label(targets: np.ndarray) -> bool:
    """Whether examples ``(n, C)`` seem to be drawn label by label: half of the labels have nearly as many as any.

    Others are a sample of the texts, or were chosen as hard ones.
    """
    counts = targets.sum(0, dtype=np.float64)
    return bool(np.median(counts) >= ALIKE * counts.max())


def log_shift(proportions: np.ndarray, targets: np.ndarray, are_estimated: bool) -> np.ndarray:
    """What to add to logits that were learned from examples ``targets`` ``(n, C)``: ``log p(y) - log q(y)``, ``(C,)``.

    p are the proportions among all texts, q those among the examples (Saerens et al. 2002). Where p is an estimate,
    both are smoothed, and it is used only for examples that were drawn label by label: others mislead the estimate.
    """
    shares = targets.sum(0, dtype=np.float64) / len(targets)
    if are_estimated and not is_drawn_by_label(targets):
        return np.zeros(len(shares))
    if are_estimated:
        return np.log(smoothed(proportions)) - np.log(smoothed(shares))
    return np.log(proportions) - np.log(np.maximum(shares, 1 / (2 * len(targets))))


SHARPNESS, LEAST, MOST = 0.7, 0.05, 20.0  # of their sum, in standard deviations of the logits
ALONE = 3.0  # the same if there is one example of each label and nothing else: of themselves, logits spread widely
SPREAD = 0.5  # of the logarithm of the sharpness, before any example is held out
MOST_RIGHT = 0.98  # the share of right answers beyond which agreement proves nothing
STRENGTH = 50.0  # how many examples it takes to move the proportions; the sharpness is free


def pool(scores: np.ndarray, weights: np.ndarray, several: bool, shift: np.ndarray | float = 0.0) -> np.ndarray:
    """Probabilities ``(N, C)`` of the logits of all experts, ``(E, N, C)``, and a shift ``(C,)`` or ``(N, C)``."""
    pooled = np.tensordot(weights, scores, 1) + shift
    return expit(pooled) if several else softmax(pooled, axis=1)


def spread_of_scores(scores: np.ndarray, several: bool) -> np.ndarray:
    """The standard deviation of the logits of each expert, ``(E,)``: in this unit experts can be compared.

    It is infinite for an expert that says the same of all labels everywhere: what it knows cannot be told.
    """
    centered = scores if several else scores - scores.mean(2, keepdims=True)
    spread = np.sqrt(np.square(centered).mean((1, 2)))
    return np.where(spread > 1e-6, spread, np.inf)


def fit_weights(
    scores: np.ndarray,
    targets: np.ndarray,
    prior: np.ndarray,
    several: bool,
    shift: np.ndarray | float = 0.0,
    counts: np.ndarray | float = 1.0,
    sharpness: float = SHARPNESS,
) -> np.ndarray:
    """The most probable weights ``(E,)``, from 0, for held-out examples: logits ``(E, n, C)``, ``targets`` ``(n, C)``.

    It maximizes ``sum c log p(y) - 25 |w - t prior|^2 - 2 log(t / sharpness)^2`` over w and t. So the examples
    say at once how sure the mixture is, and only as they become many what the experts count. An example
    counts c, of ``counts`` ``(n, 1)``. The logits are in units of ``spread_of_scores``.
    """
    from scipy.optimize import minimize

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, times = parameters[:-1], parameters[-1]
        pooled = np.tensordot(weights, scores, 1) + shift
        if several:
            likelihood = (log_expit(pooled) * targets + log_expit(-pooled) * (1 - targets)).sum() / targets.shape[1]
            error = (expit(pooled) - targets) / targets.shape[1]
        else:
            logs = log_softmax(pooled, axis=1)
            likelihood = (counts * logs * targets).sum()
            error = counts * (np.exp(logs) - targets)
        away, sharper = weights - times * prior, np.log(times / sharpness) / SPREAD
        value = -likelihood + STRENGTH / 2 * away @ away + sharper**2 / 2
        gradient = np.tensordot(scores, error, 2) + STRENGTH * away
        return value, np.append(gradient, -STRENGTH * away @ prior + sharper / times / SPREAD)

    start = np.append(sharpness * prior, sharpness)
    bounds = [(0, None)] * len(prior) + [(LEAST, MOST)]
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[:-1]
    return weights if weights.any() else LEAST * prior  # no expert knows anything: the least that is still an answer


def sharpness_by_agreement(scores: np.ndarray, prior: np.ndarray, shift: np.ndarray, one: int, other: int) -> float:
    """The sharpness t at which the mixture is as sure of texts without labels as two experts must be right.

    Experts who know different things, are right in a share p of N texts and err at random agree in
    ``p^2 + (1 - p)^2 / (C - 1)`` of them: their agreement gives p without any label. t makes p the mean probability of
    the best label in ``softmax(t sum_e prior_e s_e + shift)``, by the logits ``(E, N, C)`` in one unit.
    """
    from scipy.optimize import brentq

    labels = scores.shape[2]
    agreed = float(np.mean(scores[one].argmax(1) == scores[other].argmax(1)))
    chance = 1 / labels
    right = chance + np.sqrt(max(agreed - chance, 0.0) * (1 - chance))
    pooled = np.tensordot(prior, scores, 1)

    def too_sure(log_sharpness: float) -> float:
        return float(softmax(np.exp(log_sharpness) * pooled + shift, axis=1).max(1).mean() - min(right, MOST_RIGHT))

    bounds = np.log(LEAST), np.log(MOST)
    if too_sure(bounds[0]) >= 0:
        return LEAST
    return MOST if too_sure(bounds[1]) <= 0 else float(np.exp(brentq(too_sure, *bounds)))
