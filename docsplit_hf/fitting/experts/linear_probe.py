"""Linear probe: multinomial logistic regression on vectors, to labels or to distributions over labels.

The minimum, and the steps to it, are those of scikit-learn's ``LogisticRegression``, whose products and checks take
several times as long where there are many labels.
"""

from __future__ import annotations

import numpy as np

PROBE_INVERSE_REGULARIZATION = 20.0  # C of scikit-learn's LogisticRegression
LEAST_ASSUMED_PROPORTION = 1e-3  # of a label that no example has; 1 minus it of a label that all examples have
SEARCH_OPTIONS = {"maxiter": 300, "maxls": 50, "gtol": 1e-4, "ftol": 0.0}  # scikit-learn's, of the mean loss


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
    shares = np.ones(len(vectors)) if text_weights is None else text_weights
    penalties = np.ones((inputs.shape[1], 1), np.float32)
    penalties[-1] = 0  # of the bias
    penalties /= inverse_regularization * shares.sum()
    shares = (shares / shares.sum())[:, None].astype(np.float32)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.astype(np.float32).reshape(inputs.shape[1], -1)
        logits = np.zeros_like(targets)
        logits[:, free] = inputs @ weights
        logits -= logits.max(1, keepdims=True)
        value = -np.vecdot(targets, logits)
        error = np.exp(logits, out=logits)
        total = error.sum(1, keepdims=True)
        value += np.log(total[:, 0])
        error /= total
        error -= targets
        error *= shares
        penalized = penalties * weights
        mean = float((shares[:, 0] * value).sum(dtype=np.float64) + np.vdot(penalized, weights) / 2)
        return mean, (inputs.T @ error[:, free] + penalized).ravel()

    start = np.zeros(inputs.shape[1] * targets[:, free].shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=SEARCH_OPTIONS).x
    weights = found.reshape(inputs.shape[1], -1).T.astype(np.float32)
    return np.concatenate([-weights, weights]) / 2 if labels == 2 else weights
