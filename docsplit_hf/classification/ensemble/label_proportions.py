"""How often each label is among texts without labels, by answers that were calibrated on held-out examples.

Examples that were drawn label by label say nothing of it. The answers to the documents do (Saerens et al. 2002), once
they are calibrated with a bias for each label, without which the estimate is far off (Alexandari et al. 2020).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWS = 50  # of what is not known of the proportions
FEWEST_DRAWS = 10
LARGEST_WORK = 10_000_000  # numbers of the held-out logits over all draws: beyond, there are fewer draws
SPREAD_OF_SHARPNESS, SPREAD_OF_BIAS = 0.5, 0.3  # standard deviations of what calibration may change, in the logarithm
AS_IF_SEEN = 5.0  # texts of each label: what the documents have to speak against
MOST_STEPS, CLOSE_ENOUGH = 200, 1e-4


class Proportions(NamedTuple):
    """How often each label is among all texts."""

    likeliest: np.ndarray  # (C,)
    draws: np.ndarray  # (B, C): what else they may be


def estimate_proportions(held_out: np.ndarray, targets: np.ndarray, documents: np.ndarray) -> Proportions:
    """Estimate them among N documents by the logits of these ``(N, C)``, and of held-out examples ``(m, C)``.

    ``targets`` ``(m, C)``, 0 or 1, are the labels of the examples. The draws are a bootstrap: other examples of each
    label, other documents, and calibrations that are as probable beforehand.
    """
    rng = np.random.default_rng(0)
    labels = targets.argmax(1)
    rows_of_label = [np.flatnonzero(labels == label) for label in range(targets.shape[1])]
    shares = np.maximum(targets.mean(0), 1 / (2 * len(targets)))
    calibrate = calibration(held_out, targets)
    likeliest = proportions_of(calibrate(documents), shares)
    draws = []
    draws_made = int(np.clip(LARGEST_WORK // held_out.size, FEWEST_DRAWS, DRAWS))
    for _ in range(draws_made):
        rows = np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of_label if len(rows)])
        others = documents[rng.integers(len(documents), size=len(documents))]
        center = rng.standard_normal(targets.shape[1] + 1)
        draws.append(proportions_of(calibration(held_out[rows], targets[rows], center)(others), shares))
    return Proportions(likeliest, np.stack(draws))


def calibration(
    scores: np.ndarray, targets: np.ndarray, center: np.ndarray | float = 0.0
) -> Callable[[np.ndarray], np.ndarray]:
    """What makes probabilities of logits: ``softmax(a s + b)``, the likeliest a and b ``(C,)`` for held-out examples.

    With priors, as examples are few: a is near 1 and b near 0; or so many standard deviations off, ``center``
    ``(1 + C,)``. The likeliest around centers drawn at random are draws of what a and b may be.
    """
    from scipy.optimize import minimize

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        sharpness, biases = np.exp(parameters[0]), parameters[1:]
        logs = log_softmax(sharpness * scores + biases, axis=1)
        error = np.exp(logs) - targets
        away = parameters / spreads - center
        value = -(logs * targets).sum() + away @ away / 2
        return value, np.append(sharpness * (error * scores).sum(), error.sum(0)) + away / spreads

    spreads = np.append(SPREAD_OF_SHARPNESS, np.full(scores.shape[1], SPREAD_OF_BIAS))
    found = minimize(loss, np.zeros(len(spreads)), jac=True, method="L-BFGS-B").x
    return lambda others: softmax(np.exp(found[0]) * others + found[1:], axis=1)


def proportions_of(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The likeliest proportions ``(C,)``, by expectation maximization, of texts with these probabilities ``(N, C)``.

    The probabilities were learned from examples that had the ``shares`` ``(C,)``.
    """
    odds = probabilities / shares
    proportions = np.full(len(shares), 1 / len(shares))
    for _ in range(MOST_STEPS):
        posterior = odds * proportions
        posterior /= posterior.sum(1, keepdims=True)
        counts = posterior.sum(0) + AS_IF_SEEN
        before, proportions = proportions, counts / counts.sum()
        if np.abs(proportions - before).max() < CLOSE_ENOUGH:
            break
    return proportions
