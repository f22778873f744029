"""Log-linear pool of the experts: the product of their distributions, each to the power of its weight.

    p(y | x)  ~  exp( sum_e w_e s_e(y | x) + b(y) )

The logits are ``s_e``. The shift b corrects for label proportions among the examples that differ from those among all
texts. If a text may have several labels, the sum gives the log odds of each, without a shift. With few examples, one
confident expert dominates a sum of distributions, as in equation 3 of Liang et al. 2023; in a product every expert
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

ClassProportions = Literal["estimated", "uniform"] | Mapping[str, float]
# Examples are balanced if the median count of a label is at least this fraction of the largest: removed copies may
# leave slightly unequal counts.
BALANCED_FRACTION = 0.9
LEAST_GIVEN_PROPORTION = 1e-4  # replaces a proportion given as 0
DEFAULT_SHARPNESS = 0.7  # prior mode of the sharpness: the sum of the weights, for logits of standard deviation 1
PRIOR_SHARPNESS_SPREAD = 0.5  # prior standard deviation of the logarithm of the sharpness
LEAST_SHARPNESS = 0.05
LARGEST_SHARPNESS = 20.0
LEAST_DECREASE = 1e-6  # relative, of a loss in float32: with less, searches end in its rounding, after dozens of trials
PRIOR_STRENGTH = 50.0  # precision of the prior of the weights, about the number of examples that balances it


# These three are in scipy.special, too, whose import takes longer than an answer.
def softmax(logits: np.ndarray, axis: int | None = None) -> np.ndarray:
    """``exp(x_i) / sum_j exp(x_j)`` along an axis, or of all numbers."""
    exponentials = np.exp(logits - logits.max(axis=axis, keepdims=True))
    exponentials /= exponentials.sum(axis=axis, keepdims=True)
    return exponentials


def log_softmax(logits: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The logarithm of ``softmax``."""
    shifted = logits - logits.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted


def losses_and_probabilities(logits: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropies ``(n,)`` of logits and distributions ``(n, C)``, and probabilities in the place of the logits."""
    logits -= logits.max(1, keepdims=True)
    losses = -np.vecdot(targets, logits)
    np.exp(logits, out=logits)
    totals = logits.sum(1, keepdims=True)
    losses += np.log(totals[:, 0])
    logits /= totals
    return losses, logits


def expit(log_odds: Any) -> Any:
    """The logistic function, ``1 / (1 + exp(-x))``."""
    with np.errstate(over="ignore"):  # of a large -x: the result is 0
        return 1 / (1 + np.exp(-log_odds))


def smoothed(proportions: np.ndarray) -> np.ndarray:
    """Average uncertain proportions ``(C,)`` with equal ones: ``(p + 1 / C) / 2``."""
    return (proportions + 1 / len(proportions)) / 2


def given_proportions(wanted: ClassProportions, names: Sequence[str]) -> np.ndarray | None:
    """Check and normalize the given proportions of C labels, ``(C,)``; None if they are to be estimated."""
    if wanted == "estimated":
        return None
    if wanted == "uniform":
        return np.full(len(names), 1 / len(names))
    if not isinstance(wanted, Mapping):
        raise ValueError(f"class_proportions must be 'estimated', 'uniform' or a number by label, got {wanted!r}.")
    if missing := [name for name in names if name not in wanted]:
        raise ValueError(f"class_proportions lacks {missing[0]!r}: give a number for each label.")
    values = np.array([wanted[name] for name in names], dtype=np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
        raise ValueError(f"class_proportions must be numbers from 0, not all 0, got {dict(wanted)!r}.")
    values = np.maximum(values / values.sum(), LEAST_GIVEN_PROPORTION)
    return values / values.sum()


def is_class_balanced(targets: np.ndarray) -> bool:
    """Return whether examples ``(n, C)`` are balanced, which shows that they were drawn label by label."""
    counts = targets.sum(0, dtype=np.float64)
    return bool(np.median(counts) >= BALANCED_FRACTION * counts.max())


def log_shift(proportions: np.ndarray, targets: np.ndarray, are_estimated: bool) -> np.ndarray:
    """Correction of logits learned from examples ``targets`` ``(n, C)``: ``log p(y) - log q(y)``, ``(C,)``.

    p are the proportions among all texts, q those among the examples (Saerens et al. 2002). If p is an estimate, both
    are smoothed, and examples that are not balanced get no correction, as the estimate is unreliable with them.
    """
    example_proportions = targets.sum(0, dtype=np.float64) / len(targets)
    if are_estimated and not is_class_balanced(targets):
        return np.zeros(len(example_proportions))
    if are_estimated:
        return np.log(smoothed(proportions)) - np.log(smoothed(example_proportions))
    return np.log(proportions) - np.log(np.maximum(example_proportions, 1 / (2 * len(targets))))


def pool(scores: np.ndarray, weights: np.ndarray, multi_label: bool, shift: np.ndarray | float = 0.0) -> np.ndarray:
    """Pool the logits of all experts ``(E, N, C)`` with a shift ``(C,)`` or ``(N, C)``: probabilities ``(N, C)``."""
    pooled = np.tensordot(weights, scores, 1) + shift
    return expit(pooled) if multi_label else softmax(pooled, axis=1)


def spread_of_scores(scores: np.ndarray, multi_label: bool) -> np.ndarray:
    """Standard deviation of the logits ``(E, N, C)`` of each expert, ``(E,)``; infinite if they are constant."""
    centered = scores if multi_label else scores - scores.mean(2, keepdims=True)
    spread = np.sqrt(np.square(centered).mean((1, 2)))
    return np.where(spread > 1e-6, spread, np.inf)


def most_probable_weights(
    scores: np.ndarray,
    targets: np.ndarray,
    prior: np.ndarray,
    multi_label: bool,
    shift: np.ndarray | float = 0.0,
    importance: np.ndarray | float = 1.0,
    sharpness: float = DEFAULT_SHARPNESS,
) -> np.ndarray:
    """Fit weights ``(E,)``, at least 0, to the logits ``(E, n, C)`` of held-out examples with ``targets`` ``(n, C)``.

    Maximizes ``sum c log p(y) - 25 |w - t prior|^2 - 2 log(t / sharpness)^2`` over the weights w and the sharpness t.
    Few examples change mainly the sharpness of the ensemble, many also the proportions of the weights. c are the
    importance weights ``(n, 1)`` of the examples. The logits must be divided by ``spread_of_scores``.
    """
    from scipy.optimize import minimize
    from scipy.special import log_expit

    scores = np.ascontiguousarray(scores)  # otherwise each product copies them
    shift = np.asarray(shift, scores.dtype)
    importance = np.asarray(importance, scores.dtype)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights = parameters[:-1]
        scale = parameters[-1]
        pooled = np.tensordot(weights.astype(scores.dtype), scores, 1) + shift
        if multi_label:
            likelihood = (log_expit(pooled) * targets + log_expit(-pooled) * (1 - targets)).sum(dtype=np.float64)
            likelihood /= targets.shape[1]
            error = (expit(pooled) - targets) / targets.shape[1]
        else:
            losses, error = losses_and_probabilities(pooled, targets)
            likelihood = -(importance * losses[:, None]).sum(dtype=np.float64)
            error -= targets
            error *= importance
        from_prior = weights - scale * prior
        log_scale = np.log(scale / sharpness) / PRIOR_SHARPNESS_SPREAD
        value = -likelihood + PRIOR_STRENGTH / 2 * from_prior @ from_prior + log_scale**2 / 2
        of_texts = np.einsum("enc,nc->en", scores, error)
        gradient = of_texts.sum(1, dtype=np.float64) + PRIOR_STRENGTH * from_prior
        scale_gradient = -PRIOR_STRENGTH * from_prior @ prior + log_scale / scale / PRIOR_SHARPNESS_SPREAD
        return value, np.append(gradient, scale_gradient)

    start = np.append(sharpness * prior, sharpness)
    bounds = [(0, None)] * len(prior) + [(LEAST_SHARPNESS, LARGEST_SHARPNESS)]
    search = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": LEAST_DECREASE})
    weights = search.x[:-1]
    return weights if weights.any() else LEAST_SHARPNESS * prior
