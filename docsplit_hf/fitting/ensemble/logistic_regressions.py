"""Logistic regressions on sparse features, one for each label, fitted in blocks of labels.

scikit-learn fits one label at a time, and reads all texts for each: with a thousand labels, that takes most of the time
of a fit. Here one pass over the texts serves a block of labels. The objective is that of scikit-learn's ``liblinear``
solver, which also penalizes the bias::

    |w|^2 / 2 + C sum_i log(1 + exp(-y_i w x_i))

It is minimized by Newton's method. Steps are found by conjugate gradients, and halved until the objective decreases
(Lin, Weng and Keerthi 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..logistic_functions import expit

if TYPE_CHECKING:
    import scipy.sparse as sp

LABELS_PER_BLOCK = 128  # a block fits into the cache of the processor
GRADIENT_TOLERANCE = 1e-3  # norm of the gradient at which a label is finished; the logits have about the same error
MAX_NEWTON_STEPS = 50
MAX_CONJUGATE_STEPS = 30
MAX_HALVINGS = 20
MAX_FORCING_TERM = 0.1  # fraction of the gradient that may remain after a step; it is reduced near the minimum
SUFFICIENT_DECREASE = 1e-4  # smallest fraction of the expected decrease of the objective
OBJECTIVE_ROUNDING = 1e-6  # relative, of the objective in float32


class Block(NamedTuple):
    """Regressions of a block of B labels."""

    features: sp.csr_array  # float32 (n, V)
    transposed: sp.csr_array  # (V, n)
    targets: np.ndarray  # float32 (n, B), 0 or 1
    inverse_regularization: np.float32

    def objectives(self, weights: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Objective of each label, float64 ``(B,)``."""
        penalty = 0.5 * np.square(weights).sum(0, dtype=np.float64)
        losses = np.logaddexp(0, logits) - self.targets * logits
        return penalty + self.inverse_regularization * losses.sum(0, dtype=np.float64)


def fit_regressions(features: sp.csr_array, targets: np.ndarray, inverse_regularization: float) -> np.ndarray:
    """Fit weights of each label, float32 ``(C, V)``, by features ``(n, V)`` and ``targets`` ``(n, C)`` of 0 and 1."""
    features = features.astype(np.float32)
    transposed = features.T.tocsr()
    found = np.zeros((targets.shape[1], features.shape[1]), np.float32)
    for start in range(0, targets.shape[1], LABELS_PER_BLOCK):
        columns = slice(start, start + LABELS_PER_BLOCK)
        own = targets[:, columns].astype(np.float32)
        block = Block(features, transposed, own, np.float32(inverse_regularization))
        found[columns] = _minimize(block).T
    return found


def _minimize(block: Block) -> np.ndarray:
    """Minimize the objectives of a block of labels; return weights ``(V, B)``."""
    weights = np.zeros((block.features.shape[1], block.targets.shape[1]), np.float32)
    logits = np.zeros(block.targets.shape, np.float32)
    objectives = block.objectives(weights, logits)
    first_norms = None
    for _ in range(MAX_NEWTON_STEPS):
        probabilities = expit(logits)
        residuals = probabilities - block.targets
        gradient = weights + block.inverse_regularization * (block.transposed @ residuals)
        norms = np.linalg.norm(gradient, axis=0)
        first_norms = norms if first_norms is None else first_norms
        unfinished = norms > GRADIENT_TOLERANCE
        if not unfinished.any():
            break
        curvature = block.inverse_regularization * probabilities * (1 - probabilities)
        forcing_terms = np.minimum(MAX_FORCING_TERM, np.sqrt(norms / first_norms.clip(1e-12)))
        residual_limits = np.where(unfinished, forcing_terms * norms, np.inf)
        step, step_of_logits = _newton_step(block, gradient, curvature, residual_limits)
        slopes = (gradient * step).sum(0, dtype=np.float64)
        sizes = unfinished.astype(np.float32)
        for _ in range(MAX_HALVINGS):
            after = block.objectives(weights + sizes * step, logits + sizes * step_of_logits)
            allowed = objectives + SUFFICIENT_DECREASE * sizes * slopes + OBJECTIVE_ROUNDING * np.abs(objectives)
            if not (after > allowed).any():
                break
            sizes = np.where(after > allowed, sizes / 2, sizes)
        weights += sizes * step
        logits += sizes * step_of_logits
        objectives = after
    return weights


def _newton_step(
    block: Block, gradient: np.ndarray, curvature: np.ndarray, residual_limits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find a Newton step by conjugate gradients, until residual norms are below ``residual_limits`` ``(B,)``.

    Returns the step ``(V, B)``, and the change of the logits ``(n, B)``.
    """
    step = np.zeros_like(gradient)
    step_of_logits = np.zeros_like(curvature)
    residual = -gradient
    direction = residual.copy()
    squares = np.square(residual).sum(0)
    for _ in range(MAX_CONJUGATE_STEPS):
        unfinished = squares > np.square(residual_limits)
        if not unfinished.any():
            break
        of_logits = block.features @ direction
        curved = direction + block.transposed @ (curvature * of_logits)
        lengths = np.where(unfinished, squares / (direction * curved).sum(0).clip(1e-30), 0).astype(np.float32)
        step += lengths * direction
        step_of_logits += lengths * of_logits
        residual -= lengths * curved
        before = squares
        squares = np.where(unfinished, np.square(residual).sum(0), before)
        momenta = np.where(unfinished, squares / before.clip(1e-30), 0).astype(np.float32)
        direction = residual + momenta * direction
    return step, step_of_logits
