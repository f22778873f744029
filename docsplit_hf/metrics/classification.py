"""Metrics of predicted probabilities as functions of arrays, by scikit-learn where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALLEST_PROBABILITY = 1e-12
CALIBRATION_BINS = 15  # as Guo et al. 2017


def accuracy(predictions: Any, references: Any) -> float:
    """The share of texts whose labels are right, all of them where there are several."""
    from sklearn.metrics import accuracy_score

    predicted, labels = _predicted_labels(predictions, references)
    return float(accuracy_score(labels, predicted))


def macro_f1(predictions: Any, references: Any) -> float:
    """The mean of F1 over the labels that occur or are predicted."""
    from sklearn.metrics import f1_score

    predicted, labels = _predicted_labels(predictions, references)
    return float(f1_score(labels, predicted, average="macro", zero_division=0))


def matthews_correlation(predictions: Any, references: Any) -> float:
    """Matthews correlation coefficient; with several labels per text, over all pairs of a text and a label."""
    from sklearn.metrics import matthews_corrcoef

    predicted, labels = _predicted_labels(predictions, references)
    return float(matthews_corrcoef(labels.ravel(), predicted.ravel()))


def log_loss(predictions: Any, references: Any) -> float:
    """The mean negative log probability of the label, or per text and label where there are several.

    scikit-learn's clips probabilities at the rounding of their dtype: one certain error of float64 would cost 36.
    """
    probabilities, labels = _probabilities_and_labels(predictions, references)
    clipped = np.clip(probabilities, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    if labels.ndim == 1:
        likelihood = np.take_along_axis(clipped, labels.astype(np.int64)[:, None], axis=1)
    else:
        likelihood = np.where(labels, clipped, 1 - clipped)
    return float(-np.log(likelihood).mean())


def expected_calibration_error(predictions: Any, references: Any) -> float:
    """By how much confidence and accuracy differ (Guo et al. 2017, equation 3), in 15 bins of equal width::

        ECE = sum_b |B_b| / N  |accuracy(B_b) - confidence(B_b)|

    With several labels per text, over all pairs of a text and a label: p is the confidence of a yes, 1 - p of a no.
    """
    probabilities, labels = _probabilities_and_labels(predictions, references)
    if labels.ndim == 1:
        confidence, is_right = probabilities.max(1), probabilities.argmax(1) == labels
    else:
        confidence = np.maximum(probabilities, 1 - probabilities).ravel()
        is_right = ((probabilities >= 0.5) == labels).ravel()
    bins = np.clip(np.ceil(confidence * CALIBRATION_BINS) - 1, 0, None).astype(int)  # (0, 1/15], (1/15, 2/15] ...
    gaps = np.bincount(bins, is_right - confidence)
    return float(np.abs(gaps).sum() / len(confidence))


def _probabilities_and_labels(predictions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
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


def _predicted_labels(predictions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predicted labels and right ones: int ``(N,)``, or bool ``(N, C)``, where from 0.5 is a yes."""
    predicted, labels = np.asarray(predictions), np.asarray(references)
    if predicted.ndim == labels.ndim == 1 and len(predicted) == len(labels) > 0:
        return predicted, labels
    probabilities, labels = _probabilities_and_labels(predictions, references)
    return probabilities.argmax(1) if labels.ndim == 1 else probabilities >= 0.5, labels
