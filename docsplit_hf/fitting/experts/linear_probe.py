"""Linear probe: multinomial logistic regression on vectors, to labels or to distributions over labels.

The minimum is that of scikit-learn's ``LogisticRegression``, and so are the steps to it unless there are many labels.
There, its products and checks take several times as long, and with some 1,500 labels it would stop at its start.
"""

from __future__ import annotations

import numpy as np

from .log_linear_pool import losses_and_probabilities

PROBE_INVERSE_REGULARIZATION = 20.0  # C of scikit-learn's LogisticRegression
LEAST_ASSUMED_PROPORTION = 1e-3  # of a label that no example has; 1 minus it of a label that all examples have
GRADIENT_TOLERANCE = 1e-4  # scikit-learn's, of the mean loss
# Divided by the number of labels, a lower one: the gradient of a label of few texts is small from the beginning.
TOLERANCE_OF_ALL_LABELS = 0.1
MANY_LABELS = 150  # with more, few folds are held out, and the example weight and the steps here differ, to save time
FIRST_LENGTH = 6.0  # of the weights of each of many labels after the first step; in the end it is about 11


def fit_probe(vectors: np.ndarray, targets: np.ndarray, multi_label: bool) -> np.ndarray:
    """Fit weights and biases of logits, or log odds if multi-label, float32 ``(C, D + 1)``, to labels ``(n, C)``."""
    if not multi_label:
        return fit_distributions(vectors, targets)
    return np.stack([_fit_log_odds(vectors, has_label) for has_label in targets.T])


def _fit_log_odds(vectors: np.ndarray, has_label: np.ndarray) -> np.ndarray:
    """Fit weights and the bias of one label ``(D + 1,)``; a constant bias if all or no examples have it."""
    if has_label.min() == has_label.max():
        proportion = np.clip(has_label.mean(), LEAST_ASSUMED_PROPORTION, 1 - LEAST_ASSUMED_PROPORTION)
        return np.append(np.zeros(vectors.shape[1]), np.log(proportion / (1 - proportion))).astype(np.float32)
    _, half = fit_distributions(vectors, np.column_stack([1 - has_label, has_label]))
    return 2 * half


def fit_distributions(
    vectors: np.ndarray,
    targets: np.ndarray,
    text_weights: np.ndarray | None = None,
    inverse_regularization: float = PROBE_INVERSE_REGULARIZATION,
) -> np.ndarray:
    """Fit weights and biases of logits, float32 ``(C, D + 1)``, to distributions ``targets`` ``(n, C)`` over labels.

    Minimizes ``|w|^2 / 2 - C sum_i t_i sum_y p_i(y) log softmax(w x_i + b)(y)``, with the ``text_weights`` t; None: 1.
    With two labels, their log odds are fitted, and w are the weights of these; the logits are minus and plus half.
    """
    from scipy.optimize import minimize

    labels = targets.shape[1]
    free = slice(1, None) if labels == 2 else slice(None)  # labels whose logits are fitted; others have 0
    inputs = np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float32)
    targets = targets.astype(np.float32)
    size = (inputs.shape[1], targets[:, free].shape[1])
    shares = np.ones(len(vectors)) if text_weights is None else text_weights
    penalties = np.ones((inputs.shape[1], 1), np.float32)
    penalties[-1] = 0  # of the bias
    penalties /= inverse_regularization * shares.sum()
    shares = (shares / shares.sum())[:, None].astype(np.float32)
    # The first step of the search has a length of 1, in these units.
    unit = FIRST_LENGTH * np.sqrt(labels) if labels > MANY_LABELS else 1.0

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = (unit * flat).astype(np.float32).reshape(size)
        logits = np.zeros_like(targets)
        logits[:, free] = inputs @ weights
        losses, error = losses_and_probabilities(logits, targets)
        error -= targets
        error *= shares
        penalized = penalties * weights
        mean = float((shares[:, 0] * losses).sum(dtype=np.float64) + np.vdot(penalized, weights) / 2)
        return mean, unit * (inputs.T @ error[:, free] + penalized).ravel()

    options = {  # the first three, and the tolerance of few labels, are scikit-learn's
        "maxiter": 300,
        "maxls": 50,
        "ftol": 0.0,
        "gtol": unit * min(GRADIENT_TOLERANCE, TOLERANCE_OF_ALL_LABELS / labels),
    }
    found = minimize(loss, np.zeros(size[0] * size[1]), jac=True, method="L-BFGS-B", options=options).x
    weights = (unit * found).reshape(size).T.astype(np.float32)
    return np.concatenate([-weights, weights]) / 2 if labels == 2 else weights
