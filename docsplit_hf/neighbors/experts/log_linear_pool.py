"""The mixture of experts: a product of their distributions, each to the power of its weight (log-linear pool).

    p(y | x)  ~  exp( sum_e w_e s_e(y | x) + b(y) )

with the logits ``s_e``, and the shift b from the proportions of the labels among the examples to those among all texts;
log odds without a shift where a text may have several labels. With few examples a sum of distributions, as in
equation 3 of Liang et al. 2023, gives a confident expert its say whatever the others know; a product asks all of them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

SHARPNESS, LEAST, MOST = 1.0, 0.05, 20.0  # of their sum, in standard deviations of the logits
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
) -> np.ndarray:
    """The most probable weights ``(E,)``, from 0, for held-out examples: logits ``(E, n, C)``, ``targets`` ``(n, C)``.

    It maximizes ``sum c log p(y) - 25 |w - t prior|^2 - (log t)^2 / 2`` over w and the sharpness t. So the examples say
    at once how sure the mixture is, and only as they become many what the experts count. An example counts c, of
    ``counts`` ``(n, 1)``. The logits are in units of ``spread_of_scores``.
    """
    from scipy.optimize import minimize

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, sharpness = parameters[:-1], parameters[-1]
        pooled = np.tensordot(weights, scores, 1) + shift
        if several:
            likelihood = (log_expit(pooled) * targets + log_expit(-pooled) * (1 - targets)).sum() / targets.shape[1]
            error = (expit(pooled) - targets) / targets.shape[1]
        else:
            likelihood = (counts * log_softmax(pooled, axis=1) * targets).sum()
            error = counts * (softmax(pooled, axis=1) - targets)
        away, log_sharpness = weights - sharpness * prior, np.log(sharpness / SHARPNESS)
        value = -likelihood + STRENGTH / 2 * away @ away + log_sharpness**2 / 2
        gradient = np.tensordot(scores, error, 2) + STRENGTH * away
        return value, np.append(gradient, -STRENGTH * away @ prior + log_sharpness / sharpness)

    start = np.append(SHARPNESS * prior, SHARPNESS)
    bounds = [(0, None)] * len(prior) + [(LEAST, MOST)]
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[:-1]
    return weights if weights.any() else LEAST * prior  # no expert knows anything: the least that is still an answer
