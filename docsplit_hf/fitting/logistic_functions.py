"""Softmax and the logistic function, as in scipy.special, whose import takes longer than an answer."""

from __future__ import annotations

from typing import Any

import numpy as np


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


def expit(log_odds: Any) -> Any:
    """The logistic function, ``1 / (1 + exp(-x))``."""
    with np.errstate(over="ignore"):  # of a large -x: the result is 0
        return 1 / (1 + np.exp(-log_odds))
