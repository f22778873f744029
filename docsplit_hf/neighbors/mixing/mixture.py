"""Equations 1 to 3 of Liang et al. 2023, the mixture of N texts, and the answers made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...models.inference.long_documents import Passages
    from ...models.inference.reader import Predictions
    from ..store.snapshot import Neighbors
    from ..store.store import Store


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
    if not np.isfinite(distances).all():
        wrong = distances[~np.isfinite(distances)][0]
        raise ValueError(f"distances must be finite, got {wrong}: check the embeddings.")
    with np.errstate(over="ignore"):  # a tiny T takes the exponent to minus infinity: the weight 0 is right
        weights = np.exp(-(distances - distances.min(1, keepdims=True)) / temperature)
    return weights / weights.sum(1, keepdims=True)


def knn_probabilities(distances: np.ndarray, labels: np.ndarray, num_labels: int, temperature: float) -> np.ndarray:
    """``P_KNN(y) = sum_j w_j [l_j = y]``, ``(N, C)``; ``labels`` are ``(N, k)``, or bool ``(N, k, C)`` of several."""
    weights, labels = neighbor_weights(distances, temperature), np.asarray(labels)
    if labels.ndim == 3:
        shares = np.einsum("nk,nkc->nc", weights, labels.astype(bool, copy=False))
        return np.minimum(shares, 1.0)  # rounding takes the sum of all weights to a little above 1
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


class Shown(NamedTuple):
    """What an answer shows beside label and score."""

    neighbors: int = 0  # how many of the nearest examples
    documents: int = 0  # how many of the nearest documents without labels
    explanation: bool = False
    novelty: bool = False
    read: bool = False  # the share of the text that was read


class Mixture(NamedTuple):
    """The distributions of N texts over L labels, float64 ``(N, L)``, and what they were made from."""

    mixture: np.ndarray  # equation 3, or the mixture of the fitted experts
    knn: np.ndarray | None  # equation 2 after add_one_smoothing; None of fitted experts
    classifier: np.ndarray | None  # equation 1, with zeros for labels that only the datastore has; None without a head
    weights: np.ndarray  # (N, k) or wider: the weight of each neighbor in equation 2
    neighbors: Any  # Neighbors; of fitted experts, their ShownVoters
    label_names: tuple[str, ...]
    documents: Neighbors | None = None  # the nearest documents without labels, where they were asked for
    thresholds: np.ndarray | None = None  # (L,) of fitted experts, where a text may have several labels
    novelty: np.ndarray | None = None  # (N,) by fitted experts, from 0 to 1, where it was asked for
    shares: np.ndarray | None = None  # (N,): the share of each text that was read
    passages: Passages | None = None  # of the texts, where any has several
    texts: Sequence[str] = ()
    accepted: np.ndarray | None = None  # bool (N,): which texts get an answer; None: all
    explain: Callable[[int, int], dict[str, Any]] | None = None  # why a text has a label, both by number


def mix_with_neighbors(
    predictions: Predictions, datastore: Store, k: int, temperature: float, weight: float, shown: int = 0
) -> Mixture:
    """Look up k neighbors, or ``shown``, and mix what their labels say with what a classifier says, if there is one."""
    neighbors = datastore.search(predictions.retrieval_embeddings, max(k, shown), predictions.passages)
    names = neighbors.label_names
    voting, labels = neighbors.distances[:, :k], neighbors.labels[:, :k]
    knn = knn_probabilities(voting, labels, len(names), temperature)
    # calibrate() goes by equation 2 itself: that it should know of the smoothing made no measurable difference.
    knn = add_one_smoothing(knn, len(datastore), datastore.multi_label)
    weights = np.zeros(neighbors.distances.shape)
    weights[:, :k] = neighbor_weights(voting, temperature)
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    if classifier is None:
        return Mixture(knn, knn, None, weights, neighbors, names)
    classifier = np.pad(classifier, ((0, 0), (0, len(names) - classifier.shape[1])))
    return Mixture(interpolate(knn, classifier, weight), knn, classifier, weights, neighbors, names)


def answer_of(
    mixture: Mixture, row: int, top_k: int | None, shown: Shown, best_only: bool, rejected: str | None = None
) -> Any:
    """The best label of a text with all neighbors, or ``top_k``, each with its own; ``rejected`` stands for none."""
    scores = mixture.mixture[row]
    count = min(shown.neighbors, mixture.weights.shape[1])
    neighbors = [_neighbor(mixture, row, rank) for rank in range(count)]
    answers = []
    for label in np.argsort(-scores, kind="stable")[: 1 if best_only else top_k]:
        name = mixture.label_names[label]
        answer = {"label": name, "score": float(scores[label])}
        if shown.neighbors:
            speaking = [n for n in neighbors if name in n.get("labels", [n.get("label")])]
            answer["neighbors"] = neighbors if best_only else speaking
        if shown.explanation:
            answer["explanation"] = mixture.explain(row, int(label))
        answers.append(answer)
    best = answers[0]
    if best_only and mixture.thresholds is not None:
        best["labels"] = [mixture.label_names[i] for i in np.flatnonzero(scores >= mixture.thresholds)]
    if mixture.accepted is not None and not mixture.accepted[row]:
        best["label"] = rejected
    if shown.novelty:
        best["novelty"] = float(mixture.novelty[row])
    if shown.read:
        best["read"] = float(mixture.shares[row])
    if shown.documents:
        best["documents"] = [_document(mixture, row, rank) for rank in range(mixture.documents.rows.shape[1])]
    return best if best_only else answers


def _neighbor(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    neighbor = mixture.neighbors.example(row, rank) | {"weight": float(mixture.weights[row, rank])}
    neighbor |= _text_passage(mixture, mixture.neighbors, row, rank)
    return {name: value for name, value in neighbor.items() if name != "text_pair" or value is not None}


def _document(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    document = mixture.documents.example(row, rank) | _text_passage(mixture, mixture.documents, row, rank)
    return {name: value for name, value in document.items() if name != "labels" and value is not None}


def _text_passage(mixture: Mixture, found: Any, row: int, rank: int) -> dict[str, Any]:
    """The passage of the text that a neighbor is nearest to, where the text has several."""
    if mixture.passages is None or mixture.passages.counts[row] == 1:
        return {}
    start, end = mixture.passages.of(row)[1][found.query_passage(row, rank)].tolist()
    return {"text_passage": {"start": start, "end": end, "text": mixture.texts[row][start:end]}}
