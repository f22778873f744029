"""What the metrics of classification are computed from: probabilities or predicted labels, and the right labels."""

from __future__ import annotations

from typing import Any

import numpy as np


def probabilities_and_labels(predictions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
    """Float64 ``(N, C)``, and int ``(N,)`` or bool ``(N, C)``."""
    probabilities, labels = np.asarray(predictions, dtype=np.float64), np.asarray(references)
    if len(labels) == 0:
        raise ValueError("There are no examples to evaluate.")
    fits = labels.shape in (probabilities.shape[:1], probabilities.shape)
    if probabilities.ndim != 2 or not fits:
        raise ValueError(
            "predictions must be probabilities of shape (N, C), and references labels of shape (N,), or (N, C) for "
            f"several labels per text, got {probabilities.shape} and {labels.shape}."
        )
    if labels.ndim == 2:
        return probabilities, labels.astype(bool)
    if not 0 <= labels.min() <= labels.max() < probabilities.shape[1]:
        raise ValueError(
            f"references must be label numbers from 0 to {probabilities.shape[1] - 1}, one for each column of the "
            f"probabilities, got {labels.min()} to {labels.max()}."
        )
    return probabilities, labels


def predicted_labels(predictions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predicted labels and right ones: int ``(N,)``, or bool ``(N, C)``, where from 0.5 is a yes."""
    predicted, labels = np.asarray(predictions), np.asarray(references)
    if predicted.ndim == labels.ndim == 1 and len(predicted) == len(labels) > 0:
        return predicted, labels
    probabilities, labels = probabilities_and_labels(predictions, references)
    return probabilities.argmax(1) if labels.ndim == 1 else probabilities >= 0.5, labels
