"""Metrics of classification as functions of arrays; they import neither evaluate nor torch."""

from __future__ import annotations

from typing import Any

import numpy as np


def accuracy(predictions: Any, references: Any) -> float:
    """Fraction of texts with the right label, or with all labels right."""
    from sklearn.metrics import accuracy_score  # here, as importing docsplit_hf must not wait for it

    predicted, labels = predicted_labels(predictions, references)
    return float(accuracy_score(labels, predicted))


def macro_f1(predictions: Any, references: Any) -> float:
    """Mean of F1 over the labels that occur or are predicted; with several labels per text, over all labels."""
    from sklearn.metrics import f1_score

    predicted, labels = predicted_labels(predictions, references)
    return float(f1_score(labels, predicted, average="macro", zero_division=0))


def log_loss(predictions: Any, references: Any) -> float:
    """Mean negative log probability of the label; with several labels per text, over pairs of a text and a label.

    Probabilities are clipped at 1e-12. scikit-learn clips at the rounding of the dtype: in float64 a single wrong
    answer with probability 1 costs 36.
    """
    probabilities, labels = probabilities_and_labels(predictions, references)
    clipped = np.clip(probabilities, 1e-12, 1 - 1e-12)
    if labels.ndim == 1:
        likelihood = np.take_along_axis(clipped, labels.astype(np.int64)[:, None], axis=1)
    else:
        likelihood = np.where(labels, clipped, 1 - clipped)
    return float(-np.log(likelihood).mean())


def probabilities_and_labels(predictions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check and convert probabilities, to float64 ``(N, C)``, and labels, to int ``(N,)`` or bool ``(N, C)``."""
    probabilities = np.asarray(predictions, dtype=np.float64)
    labels = np.asarray(references)
    if len(labels) == 0:
        raise ValueError("There are no examples to evaluate.")
    if probabilities.ndim != 2 or labels.shape not in (probabilities.shape[:1], probabilities.shape):
        raise ValueError(
            "predictions must be probabilities of shape (N, C), labels (N,) or (N, C), got "
            f"{probabilities.shape} and {labels.shape}."
        )
    if labels.ndim == 2:
        return probabilities, labels.astype(bool)
    if not 0 <= labels.min() <= labels.max() < probabilities.shape[1]:
        raise ValueError(
            f"references must be numbers from 0 to {probabilities.shape[1] - 1}, one per column, got {labels.min()} to "
            f"{labels.max()}."
        )
    return probabilities, labels


def predicted_labels(predictions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
    """Convert to predicted and right labels: int ``(N,)``, or bool ``(N, C)`` with a threshold of 0.5."""
    predicted = np.asarray(predictions)
    labels = np.asarray(references)
    if predicted.ndim == labels.ndim == 1 and len(predicted) == len(labels) > 0:
        return predicted, labels
    probabilities, labels = probabilities_and_labels(predictions, references)
    predicted = probabilities.argmax(1) if labels.ndim == 1 else probabilities >= 0.5
    return predicted, labels
