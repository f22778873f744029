"""Equations 1 to 3 of Liang et al. 2023 as pure functions: the classifier, the neighbors, and the two mixed."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax


def classifier_probabilities(logits: np.ndarray, multi_label: bool) -> np.ndarray | None:
    """Equation 1: softmax of ``logits``, ``(N, C)``, or a sigmoid of each; None without a head (C is 0)."""
    if logits.shape[1] == 0:
        return None
    return expit(logits.astype(np.float64)) if multi_label else softmax(logits.astype(np.float64), axis=1)


def neighbor_weights(distances: np.ndarray, temperature: float) -> np.ndarray:
    """The weight of each neighbor, ``(N, k)``, from its squared L2 distance (equation 2)::

        w_j = exp(-d_j / T) / sum_i exp(-d_i / T)

    A small T leaves the nearest neighbor alone; with ``math.inf`` all have the same weight.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}. The paper uses 10; calibrate() chooses one.")
    distances = np.asarray(distances, dtype=np.float64)
    if distances.ndim != 2 or distances.shape[1] == 0:
        raise ValueError(f"distances must be of shape (N, k) with k from 1, got {distances.shape}.")
    if not np.isfinite(distances).all():
        wrong = distances[~np.isfinite(distances)][0]
        raise ValueError(f"distances must be finite, got {wrong}: check the embeddings.")
    with np.errstate(over="ignore"):  # a tiny T takes the exponent to minus infinity: the weight 0 is right
        weights = np.exp(-(distances - distances.min(1, keepdims=True)) / temperature)
    return weights / weights.sum(1, keepdims=True)


def knn_probabilities(distances: np.ndarray, labels: np.ndarray, num_labels: int, temperature: float) -> np.ndarray:
    """The probabilities of the labels by the neighbors, ``(N, C)``: ``P_KNN(y) = sum_j w_j [l_j = y]``.

    ``labels`` are integers ``(N, k)``, or bool ``(N, k, C)`` where a text may have several.
    """
    weights, labels = neighbor_weights(distances, temperature), np.asarray(labels)
    if labels.ndim == 3:
        if labels.shape != (*weights.shape, num_labels):
            raise ValueError(f"labels must be of shape {(*weights.shape, num_labels)}, (N, k, C), got {labels.shape}.")
        shares = np.einsum("nk,nkc->nc", weights, labels.astype(bool, copy=False))
        return np.minimum(shares, 1.0)  # rounding takes the sum of all weights to a little above 1
    if labels.shape != weights.shape:
        raise ValueError(f"labels must be of shape {weights.shape} as the distances, or (N, k, C), got {labels.shape}.")
    check_labels(labels, num_labels)
    rows = np.arange(len(labels))[:, None] * num_labels
    return np.bincount((rows + labels).ravel(), weights.ravel(), len(labels) * num_labels).reshape(-1, num_labels)


def add_one_smoothing(knn: np.ndarray, examples: int, several: bool = False) -> np.ndarray:
    """Equation 2 with one more example of each label (Laplace): ``P(y) = (N P_KNN(y) + 1) / (N + C)``.

    N is the number of examples in the datastore. Not in the paper, where three neighbors that agree are certain. With
    several labels per text, 2 stands for C. The order of the labels stays.
    """
    return (examples * np.asarray(knn, dtype=np.float64) + 1) / (examples + (2 if several else knn.shape[1]))


def interpolate(knn: np.ndarray, classifier: np.ndarray, weight: float) -> np.ndarray:
    """Equation 3, ``P(y) = weight P_KNN(y) + (1 - weight) P_CLS(y)``; all arrays are ``(N, C)``."""
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must be from 0 (the classifier) to 1 (the neighbors), got {weight}.")
    if knn.ndim != 2 or knn.shape != classifier.shape:
        raise ValueError(f"The neighbors' probabilities are of shape {knn.shape}, the classifier's {classifier.shape}.")
    return weight * knn + (1 - weight) * classifier


def effective_neighbors(weights: np.ndarray) -> np.ndarray:
    """How many neighbors decide, ``(N,)``, from 1 to k: the effective sample size ``1 / sum_j w_j^2`` (Kish 1965)."""
    return 1 / np.square(np.asarray(weights, dtype=np.float64)).sum(1)


def check_labels(labels: np.ndarray, num_labels: int) -> None:
    """Refuse numbers that are not labels: -1 would silently be counted as another label."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers, or bool of shape (..., C) for several labels, got {labels.dtype}.")
    outside = labels[(labels < 0) | (labels >= num_labels)]
    if outside.size:
        raise ValueError(f"Label {outside[0]} is not one of the {num_labels} labels from 0: correct num_labels.")
