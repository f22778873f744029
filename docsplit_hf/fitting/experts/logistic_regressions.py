"""Logistic regressions on sparse features, one for each label, fitted in blocks of labels.

scikit-learn fits one label at a time, and reads all texts for each: with a thousand labels, that takes most of the time
of a fit. Here one pass over the texts serves a block of labels. The objective is that of scikit-learn's ``liblinear``
solver, which also penalizes the bias::

    |w|^2 / 2 + C sum_i log(1 + exp(-y_i w x_i))

It is minimized by Newton's method. Steps are found by conjugate gradients, and halved until the objective decreases
(Lin, Weng and Keerthi 2008). The weights are sums of texts, ``w = X^T a``, with a coefficient for each text. The same
steps are made on coefficients, by the products of texts ``K = X X^T``: there are more words than texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .log_linear_pool import expit

if TYPE_CHECKING:
    import scipy.sparse as sp

LABELS_PER_BLOCK = 32  # a block fits into the cache of the processor
LABELS_PER_DENSE_BLOCK = 128  # products by a dense matrix are faster with more columns
GRADIENT_TOLERANCE = 0.1  # norm of the gradient at which a label is finished; logits of texts err by 0.03 at most
MAX_NEWTON_STEPS = 50
MAX_CONJUGATE_STEPS = 30
MAX_HALVINGS = 20
MAX_FORCING_TERM = 0.3  # fraction of the gradient that may remain after a step; it is reduced near the minimum
SUFFICIENT_DECREASE = 1e-4  # smallest fraction of the expected decrease of the objective
OBJECTIVE_ROUNDING = 1e-6  # relative, of the objective in float32
ROUNDS_OF_START = 20
DENSE_SPEED = 25  # products by a dense matrix take as long as by a sparse one with so many times fewer numbers
MAX_DENSE_TEXTS = 6_000  # whose matrix takes 144 MB


class Block(NamedTuple):
    """Regressions of a block of B labels."""

    text_products: TextProducts
    targets: np.ndarray  # float32 (n, B), 0 or 1
    inverse_regularization: np.float32

    def objectives(self, coefficients: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Objective of each label, float64 ``(B,)``."""
        losses = np.logaddexp(0, logits) - self.targets * logits
        return 0.5 * _dot(coefficients, logits) + self.inverse_regularization * losses.sum(0, dtype=np.float64)


class TextProducts:
    """Products of texts with features ``(n, V)``, ``K = X X^T``; a dense matrix where it is faster than two of X."""

    def __init__(self, features: sp.csr_array) -> None:
        self.features = features
        self.transposed = features.T.tocsr()
        texts = features.shape[0]
        is_dense = texts <= MAX_DENSE_TEXTS and texts**2 <= 2 * DENSE_SPEED * features.nnz
        self.matrix = (features @ self.transposed).toarray() if is_dense else None

    def __matmul__(self, coefficients: np.ndarray) -> np.ndarray:
        if self.matrix is None:
            return self.features @ (self.transposed @ coefficients)
        return self.matrix @ coefficients


def fit_regressions(features: sp.csr_array, targets: np.ndarray, inverse_regularization: float) -> np.ndarray:
    """Fit weights of each label, float32 ``(C, V)``, to ``targets`` ``(n, C)`` of 0 and 1, by features ``(n, V)``.

    The features are not negative, and one of them, for the bias, is 1 in each text.
    """
    text_products = TextProducts(features.astype(np.float32))
    found = np.zeros((features.shape[1], targets.shape[1]), np.float32)
    size = LABELS_PER_BLOCK if text_products.matrix is None else LABELS_PER_DENSE_BLOCK
    for start in range(0, targets.shape[1], size):
        columns = slice(start, start + size)
        block = Block(text_products, targets[:, columns].astype(np.float32), np.float32(inverse_regularization))
        found[:, columns] = text_products.transposed @ _minimize(block)
    return found.T


def _minimize(block: Block) -> np.ndarray:
    """Minimize the objectives of a block of labels; return coefficients of the texts, ``(n, B)``."""
    coefficients, logits = _start(block)
    found = coefficients.copy()
    open_columns = np.arange(found.shape[1])
    for _ in range(MAX_NEWTON_STEPS):
        probabilities = expit(logits)
        gradient = coefficients + block.inverse_regularization * (probabilities - block.targets)
        gradient_of_logits = block.text_products @ gradient
        norms = np.sqrt(_dot(gradient, gradient_of_logits).clip(0))
        found[:, open_columns] = coefficients
        unfinished = norms > GRADIENT_TOLERANCE
        if not unfinished.any():
            break
        block = block._replace(targets=block.targets[:, unfinished])
        open_columns = open_columns[unfinished]
        norms = norms[unfinished]
        coefficients = coefficients[:, unfinished]
        logits = logits[:, unfinished]
        probabilities = probabilities[:, unfinished]
        gradient = gradient[:, unfinished]
        gradient_of_logits = gradient_of_logits[:, unfinished]
        curvature = block.inverse_regularization * probabilities * (1 - probabilities)
        forcing_terms = np.minimum(MAX_FORCING_TERM, np.sqrt(norms))
        step, step_of_logits = _newton_step(block, gradient, gradient_of_logits, curvature, forcing_terms * norms)
        sizes = _step_sizes(block, coefficients, logits, step, step_of_logits, _dot(gradient_of_logits, step))
        coefficients += sizes * step
        logits += sizes * step_of_logits
    return found


def _step_sizes(
    block: Block,
    coefficients: np.ndarray,
    logits: np.ndarray,
    step: np.ndarray,
    step_of_logits: np.ndarray,
    slopes: np.ndarray,
) -> np.ndarray:
    """Sizes of the steps, float32 ``(B,)``, with which the objectives decrease; 1, or halved until they do."""
    objectives = block.objectives(coefficients, logits)
    sizes = np.ones(len(slopes), np.float32)
    for _ in range(MAX_HALVINGS):
        after = block.objectives(coefficients + sizes * step, logits + sizes * step_of_logits)
        allowed = objectives + SUFFICIENT_DECREASE * sizes * slopes + OBJECTIVE_ROUNDING * np.abs(objectives)
        if not (after > allowed).any():
            break
        sizes = np.where(after > allowed, sizes / 2, sizes)
    return sizes


def _start(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and logits, ``(n, B)`` each: the best with one coefficient for a label's texts, and one for others.

    From log odds alone, most Newton steps are spent on the way to where the objective is nearly quadratic.
    """
    targets = block.targets
    largest = block.inverse_regularization  # bound of each coefficient
    of_all = block.text_products @ np.ones((len(targets), 1), np.float32)
    of_targets = block.text_products @ targets
    counts = targets.sum(0, dtype=np.float64)
    others = len(targets) - counts
    # Sums of the products of two texts: both have the label, one has it, none has it.
    within = _dot(targets, of_targets)
    across = _dot(targets, np.broadcast_to(of_all, targets.shape)) - within
    without = of_all.sum(dtype=np.float64) - within - 2 * across
    of_others = np.zeros(len(counts))
    for _ in range(ROUNDS_OF_START):
        of_label = largest * _share_missed(largest * within / counts, -of_others * across / counts)
        of_others = largest * _share_missed(largest * without / others, -of_label * across / others)
    both = (of_label + of_others).astype(np.float32)
    of_others = of_others.astype(np.float32)
    return both * targets - of_others, both * of_targets - of_others * of_all


def _share_missed(scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Solve ``z = scale p + offset`` with ``p = 1 / (1 + exp(z))`` by Newton's method, which rises or falls from 0."""
    found = np.zeros_like(offset)
    for _ in range(ROUNDS_OF_START):
        missed = expit(-found)
        found -= (found - scale * missed - offset) / (1 + scale * missed * (1 - missed))
    return expit(-found)


def _newton_step(
    block: Block,
    gradient: np.ndarray,
    gradient_of_logits: np.ndarray,
    curvature: np.ndarray,
    residual_limits: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Find a Newton step by conjugate gradients, until residual norms are below ``residual_limits`` ``(B,)``.

    Returns the step and the change of the logits, ``(n, B)`` each.
    """
    step = np.zeros_like(gradient)
    step_of_logits = np.zeros_like(gradient)
    residual = -gradient
    residual_of_logits = -gradient_of_logits
    direction = residual.copy()
    of_logits = residual_of_logits.copy()
    squares = _dot(residual, residual_of_logits)
    for _ in range(MAX_CONJUGATE_STEPS):
        unfinished = squares > np.square(residual_limits)
        if not unfinished.any():
            break
        curved = direction + curvature * of_logits
        lengths = np.where(unfinished, squares / _dot(of_logits, curved).clip(1e-30), 0).astype(np.float32)
        step += lengths * direction
        step_of_logits += lengths * of_logits
        residual -= lengths * curved
        residual_of_logits = block.text_products @ residual
        before = squares
        squares = np.where(unfinished, _dot(residual, residual_of_logits), before)
        momenta = np.where(unfinished, squares / before.clip(1e-30), 0).astype(np.float32)
        direction = residual + momenta * direction
        of_logits = residual_of_logits + momenta * of_logits
    return step, step_of_logits


def _dot(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products of the columns of two arrays ``(n, B)``, float64 ``(B,)``."""
    return np.einsum("nb,nb->b", left, right, dtype=np.float64)
