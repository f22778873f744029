"""Estimate of label proportions among documents, by calibrated probabilities.

Examples that were drawn label by label do not have these proportions. They follow from the probabilities of the
documents (Saerens et al. 2002), calibrated on held-out examples with a bias for each label (Alexandari et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..experts.log_linear_pool import LEAST_DECREASE, losses_and_probabilities, softmax

MAX_DRAWS = 50  # bootstrap draws
MIN_DRAWS = 10
MAX_DRAWN_LOGITS = 10_000_000  # draws times held-out logits: with more logits, there are fewer draws
# Prior standard deviations of the log sharpness and of the biases of the calibration.
CALIBRATION_SHARPNESS_SPREAD = 0.5
CALIBRATION_BIAS_SPREAD = 0.3
PSEUDO_COUNT = 5.0  # texts that are added to each label
KEPT_FRACTIONS = (0.25, 0.5, 0.75, 1.0)  # of the distance of the estimate to equal proportions
WORTHLESS_DRAWS = 0.1  # fraction of the draws in which an estimate that is used may answer no better than without
# Accuracy of the held-out answers above chance (chance is 0) up to which an estimate is not used, and from which it is.
UNUSABLE_ACCURACY = 0.4
USABLE_ACCURACY = 0.6
MAX_EM_ITERATIONS = 200
EM_TOLERANCE = 1e-4


class Proportions(NamedTuple):
    """Label proportions among all texts."""

    likeliest: np.ndarray  # (C,): point estimate; moved toward equal proportions if it was estimated
    draws: np.ndarray  # (B, C): bootstrap draws


def estimate_proportions(held_out: np.ndarray, targets: np.ndarray, documents: np.ndarray) -> Proportions:
    """Estimate label proportions among N documents by their logits ``(N, C)``.

    The logits are calibrated on ``held_out`` ``(m, C)``, those of examples with ``targets`` ``(m, C)``, 0 or 1. Each
    bootstrap draw resamples the examples of each label and the documents, and draws the center of the prior of the
    calibration at random. The estimate is moved toward equal proportions unless held-out answers gain by it.
    """
    rng = np.random.default_rng(0)
    labels = targets.argmax(1)
    rows_of_label = [np.flatnonzero(labels == label) for label in range(targets.shape[1])]
    example_proportions = np.maximum(targets.mean(0), 1 / (2 * len(targets)))
    calibrate = calibration(held_out, targets)
    likeliest = proportions_of(calibrate(documents), example_proportions)
    draws = []
    weights = []
    for _ in range(int(np.clip(MAX_DRAWN_LOGITS // held_out.size, MIN_DRAWS, MAX_DRAWS))):
        rows = np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of_label if len(rows)])
        resampled = documents[rng.integers(len(documents), size=len(documents))]
        calibrate = calibration(held_out[rows], targets[rows], center=rng.standard_normal(targets.shape[1] + 1))
        drawn = proportions_of(calibrate(resampled), example_proportions)
        draws.append(drawn)
        weights.append(np.bincount(rows, minlength=len(labels)) * (drawn / targets.sum(0).clip(1))[labels])
    kept = moved_toward_equal(likeliest, held_out - np.log(example_proportions), labels, np.stack(weights))
    return Proportions(kept, np.stack(draws))


def moved_toward_equal(
    proportions: np.ndarray, log_likelihoods: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Move proportions ``(C,)`` toward equal ones, until held-out answers gain by them in nine of ten draws.

    The fraction of the distance is kept whose gain in accuracy is largest at that level; nothing is kept without a
    gain, or if the answers are near chance: there the estimate follows their errors.

    Args:
        proportions: The estimate.
        log_likelihoods: Logits of m held-out texts, without the proportions of the examples, ``(m, C)``.
        labels: Their labels, ``(m,)``.
        weights: Weights of these texts in each draw, ``(B, m)``, which sum to 1.

    Returns:
        The proportions to use, ``(C,)``.
    """
    equal = 1 / len(proportions)
    is_right = log_likelihoods.argmax(1) == labels
    most_gained = 0.0
    kept = 0.0
    for fraction in KEPT_FRACTIONS:
        candidate = equal + fraction * (proportions - equal)
        is_right_with = (log_likelihoods + np.log(candidate)).argmax(1) == labels
        gained = np.quantile(weights @ (is_right_with.astype(float) - is_right), WORTHLESS_DRAWS)
        if gained > most_gained:
            most_gained = gained
            kept = fraction
    above_chance = (is_right.mean() - equal) / (1 - equal)
    usable = np.clip((above_chance - UNUSABLE_ACCURACY) / (USABLE_ACCURACY - UNUSABLE_ACCURACY), 0, 1)
    return equal + usable * kept * (proportions - equal)


def calibration(
    scores: np.ndarray, targets: np.ndarray, center: np.ndarray | float = 0.0
) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a calibration ``softmax(a s + b)`` of logits s, with a scalar a and b ``(C,)``, to held-out examples.

    Priors keep a near 1 and b near 0, or ``center`` ``(1 + C,)`` standard deviations away: fits around random centers
    are draws of the posterior.
    """
    from scipy.optimize import minimize

    scores = scores.astype(np.float32)
    targets = targets.astype(np.float32)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        sharpness = np.exp(parameters[0])
        logits = np.float32(sharpness) * scores + parameters[1:].astype(np.float32)
        losses, error = losses_and_probabilities(logits, targets)
        error -= targets
        from_prior = parameters / spreads - center
        value = losses.sum(dtype=np.float64) + from_prior @ from_prior / 2
        of_sharpness = sharpness * np.vecdot(error, scores).sum(dtype=np.float64)
        return value, np.append(of_sharpness, error.sum(0, dtype=np.float64)) + from_prior / spreads

    spreads = np.append(CALIBRATION_SHARPNESS_SPREAD, np.full(scores.shape[1], CALIBRATION_BIAS_SPREAD))
    found = minimize(loss, np.zeros_like(spreads), jac=True, method="L-BFGS-B", options={"ftol": LEAST_DECREASE}).x
    return lambda logits: softmax(np.exp(found[0]) * logits + found[1:], axis=1)


def proportions_of(probabilities: np.ndarray, example_proportions: np.ndarray) -> np.ndarray:
    """Most likely label proportions ``(C,)`` of texts with ``probabilities`` ``(N, C)``, by expectation maximization.

    The probabilities were learned from examples with ``example_proportions`` ``(C,)``.
    """
    odds = probabilities / example_proportions
    labels = len(example_proportions)
    proportions = np.full(labels, 1 / labels)
    for _ in range(MAX_EM_ITERATIONS):
        posterior = odds * proportions
        posterior /= posterior.sum(1, keepdims=True)
        counts = posterior.sum(0) + PSEUDO_COUNT
        before = proportions
        proportions = counts / counts.sum()
        if np.abs(proportions - before).max() < EM_TOLERANCE:
            break
    return proportions
