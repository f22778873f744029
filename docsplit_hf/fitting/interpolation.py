"""Equations 1 to 3 of Liang et al. 2023, and predictions by them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays.passages import Predictions
from ..arrays.snapshot import SearchResult, Snapshot
from .experts.log_linear_pool import expit, softmax
from .experts.neighbor_expert import neighbor_weights
from .prediction import CallOptions, Prediction, TextInputs

# Source of a calibration of k, temperature and weight that stays valid when examples are added.
HELD_OUT_SOURCE = "held-out examples"


def classifier_probabilities(logits: np.ndarray, multi_label: bool) -> np.ndarray | None:
    """Equation 1: softmax of the logits ``(N, C)``, or their sigmoid if multi-label; None without a head (C is 0)."""
    if logits.shape[1] == 0:
        return None
    logits = logits.astype(np.float64)
    return expit(logits) if multi_label else softmax(logits, axis=1)


def knn_probabilities(distances: np.ndarray, labels: np.ndarray, num_labels: int, temperature: float) -> np.ndarray:
    """Equation 2, ``P_KNN(y) = sum_j w_j [l_j = y]``, ``(N, C)``, by labels int ``(N, k)`` or bool ``(N, k, C)``."""
    weights = neighbor_weights(distances, temperature)
    labels = np.asarray(labels)
    if labels.ndim == 3:
        sums = np.einsum("nk,nkc->nc", weights, labels.astype(bool, copy=False))
        return np.minimum(sums, 1.0)  # rounding may give a sum slightly above 1
    check_labels(labels, num_labels)
    cells = np.arange(len(labels))[:, None] * num_labels + labels  # flat position of each neighbor in the result
    sums = np.bincount(cells.ravel(), weights.ravel(), len(labels) * num_labels)
    return sums.reshape(-1, num_labels)


def add_one_smoothing(knn: np.ndarray, examples: int, multi_label: bool = False) -> np.ndarray:
    """Equation 2 with one more example of each label (Laplace): ``P(y) = (N P_KNN(y) + 1) / (N + C)``.

    N is the number of examples in the datastore; with ``multi_label``, C is 2. In the paper, which has no smoothing,
    three agreeing neighbors give a probability of 1. The order of the labels does not change.
    """
    outcomes = 2 if multi_label else knn.shape[1]
    return (examples * np.asarray(knn, dtype=np.float64) + 1) / (examples + outcomes)


def interpolate(knn: np.ndarray, classifier: np.ndarray, weight: float) -> np.ndarray:
    """Equation 3, ``P(y) = weight P_KNN(y) + (1 - weight) P_CLS(y)``; all arrays are ``(N, C)``."""
    return weight * knn + (1 - weight) * classifier


def effective_neighbors(weights: np.ndarray) -> np.ndarray:
    """Effective number of neighbors by their weights ``(N, k)``: ``1 / sum_j w_j^2``, ``(N,)``, 1 to k (Kish 1965)."""
    return 1 / np.square(np.asarray(weights, dtype=np.float64)).sum(1)


def check_labels(labels: np.ndarray, num_labels: int) -> None:
    """Raise ValueError for integers outside 0 to ``num_labels - 1``, which would count as other labels."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers, or bool of shape (..., C) for several labels, got {labels.dtype}.")
    outside = labels[(labels < 0) | (labels >= num_labels)]
    if outside.size:
        raise ValueError(f"Label {outside[0]} is not one of the {num_labels} labels from 0: correct num_labels.")


class Interpolation(NamedTuple):
    """Label probabilities of N texts over L labels by equation 3, and its parts, float64 ``(N, L)``."""

    probabilities: np.ndarray  # equation 3; equation 2 without a classifier
    knn: np.ndarray  # equation 2 after add_one_smoothing
    classifier: np.ndarray | None  # equation 1, with zeros for labels that only the datastore has; None without a head
    neighbors: SearchResult
    neighbor_weights: np.ndarray  # (N, k) or wider: weight of each neighbor in equation 2


def interpolate_with_neighbors(
    encoded: Predictions, snapshot: Snapshot, k: int, temperature: float, weight: float, min_neighbors: int = 0
) -> Interpolation:
    """Interpolate the votes of k neighbors with the probabilities of a classification head, if there is one.

    ``min_neighbors`` is the number of neighbors to find, if above k; only k vote.
    """
    neighbors = snapshot.search(encoded.retrieval_embeddings, max(k, min_neighbors), encoded.passages)
    labels = len(neighbors.label_names)
    voting_distances = neighbors.distances[:, :k]
    knn = knn_probabilities(voting_distances, neighbors.labels[:, :k], labels, temperature)
    # calibrate() uses equation 2 without smoothing, which makes no measurable difference.
    knn = add_one_smoothing(knn, len(snapshot.keys), snapshot.multi_label)
    all_weights = np.zeros(neighbors.distances.shape)
    all_weights[:, :k] = neighbor_weights(voting_distances, temperature)
    classifier = classifier_probabilities(encoded.logits, snapshot.multi_label)
    probabilities = knn
    if classifier is not None:
        new_labels = labels - classifier.shape[1]  # labels that only the datastore has
        classifier = np.pad(classifier, ((0, 0), (0, new_labels)))
        probabilities = interpolate(knn, classifier, weight)
    return Interpolation(
        probabilities=probabilities,
        knn=knn,
        classifier=classifier,
        neighbors=neighbors,
        neighbor_weights=all_weights,
    )


def predict_with_neighbors(
    inputs: TextInputs, snapshot: Snapshot, options: CallOptions, k: int, temperature: float, weight: float
) -> Prediction:
    """Predict labels by equation 3."""
    shown = options.get("return_neighbors", 0)
    interpolation = interpolate_with_neighbors(inputs.embedded, snapshot, k, temperature, weight, shown)
    return Prediction(
        inputs=inputs,
        options=options,
        label_names=interpolation.neighbors.label_names,
        probabilities=interpolation.probabilities,
        neighbors=interpolation.neighbors,
        neighbor_weights=interpolation.neighbor_weights,
    )
