"""Equations 1 to 3 of Liang et al. 2023, the mixture for N texts, and the answers made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...models.inference.long_documents import Passages
    from ...models.inference.text_embedder import Predictions
    from ..store.snapshot import Neighbors
    from ..store.store import Store


NO_CONTENT = "no content"  # the reason of an answer without a label


def classifier_probabilities(logits: np.ndarray, multi_label: bool) -> np.ndarray | None:
    """Equation 1: softmax of ``logits``, ``(N, C)``, or a sigmoid of each; None without a head (C is 0)."""
    if logits.shape[1] == 0:
        return None
    logits = logits.astype(np.float64)
    return expit(logits) if multi_label else softmax(logits, axis=1)


def neighbor_weights(distances: np.ndarray, temperature: float) -> np.ndarray:
    """The weight of each neighbor, ``(N, k)``, from its squared L2 distance (equation 2)::

        w_j = exp(-d_j / T) / sum_i exp(-d_i / T)

    With a small T only the nearest neighbor has a weight; with ``math.inf`` all have the same weight.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}. The paper uses 10; calibrate() chooses one.")
    distances = np.asarray(distances, dtype=np.float64)
    if not np.isfinite(distances).all():
        wrong = distances[~np.isfinite(distances)][0]
        raise ValueError(f"distances must be finite, got {wrong}: check the embeddings.")
    with np.errstate(over="ignore"):  # with a tiny T the exponent is minus infinity, and the weight 0 is right
        weights = np.exp(-(distances - distances.min(1, keepdims=True)) / temperature)
    return weights / weights.sum(1, keepdims=True)


def knn_probabilities(distances: np.ndarray, labels: np.ndarray, num_labels: int, temperature: float) -> np.ndarray:
    """``P_KNN(y) = sum_j w_j [l_j = y]``, ``(N, C)``; ``labels``: ``(N, k)``, or bool ``(N, k, C)`` for several."""
    weights = neighbor_weights(distances, temperature)
    labels = np.asarray(labels)
    if labels.ndim == 3:
        sums = np.einsum("nk,nkc->nc", weights, labels.astype(bool, copy=False))
        return np.minimum(sums, 1.0)  # rounding may give a sum slightly above 1
    check_labels(labels, num_labels)
    cells = np.arange(len(labels))[:, None] * num_labels + labels  # of each neighbor in the result, raveled
    sums = np.bincount(cells.ravel(), weights.ravel(), len(labels) * num_labels)
    return sums.reshape(-1, num_labels)


def add_one_smoothing(knn: np.ndarray, examples: int, several: bool = False) -> np.ndarray:
    """Equation 2 with one more example of each label (Laplace): ``P(y) = (N P_KNN(y) + 1) / (N + C)``.

    N is the number of examples in the datastore. The paper has no smoothing: three neighbors that agree are certain
    there. With ``several`` labels per text, C is 2. The order of the labels stays.
    """
    outcomes = 2 if several else knn.shape[1]
    return (examples * np.asarray(knn, dtype=np.float64) + 1) / (examples + outcomes)


def interpolate(knn: np.ndarray, classifier: np.ndarray, weight: float) -> np.ndarray:
    """Equation 3, ``P(y) = weight P_KNN(y) + (1 - weight) P_CLS(y)``; all arrays are ``(N, C)``."""
    return weight * knn + (1 - weight) * classifier


def effective_neighbors(weights: np.ndarray) -> np.ndarray:
    """The effective number of neighbors, ``(N,)``, from 1 to k: ``1 / sum_j w_j^2`` (Kish 1965)."""
    return 1 / np.square(np.asarray(weights, dtype=np.float64)).sum(1)


def check_labels(labels: np.ndarray, num_labels: int) -> None:
    """Refuse numbers that are not labels: -1 would be counted as another label."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers, or bool of shape (..., C) for several labels, got {labels.dtype}.")
    outside = labels[(labels < 0) | (labels >= num_labels)]
    if outside.size:
        raise ValueError(f"Label {outside[0]} is not one of the {num_labels} labels from 0: correct num_labels.")


class Shown(NamedTuple):
    """Parts of an answer in addition to label and score."""

    neighbors: int = 0  # number of nearest examples
    documents: int = 0  # number of nearest unlabeled documents
    explanation: bool = False
    novelty: bool = False
    read: bool = False  # the share of the text that was read


class Mixture(NamedTuple):
    """The distributions of N texts over L labels, float64 ``(N, L)``, with their components."""

    mixture: np.ndarray  # equation 3, or the mixture of the fitted experts
    knn: np.ndarray | None  # equation 2 after add_one_smoothing; None for fitted experts
    classifier: np.ndarray | None  # equation 1, with zeros for labels that only the datastore has; None without a head
    weights: np.ndarray  # (N, k) or wider: the weight of each neighbor in equation 2
    neighbors: Any  # Neighbors; for fitted experts, their ShownVoters
    label_names: tuple[str, ...]
    documents: Neighbors | None = None  # the nearest unlabeled documents, on request
    thresholds: np.ndarray | None = None  # (L,) of fitted experts, if a text may have several labels
    novelty: np.ndarray | None = None  # (N,) by fitted experts, from 0 to 1, on request
    shares: np.ndarray | None = None  # (N,): the share of each text that was read
    passages: Passages | None = None  # of the texts, if any text has several
    texts: Sequence[str] = ()
    accepted: np.ndarray | None = None  # bool (N,): whether a text gets an answer; None: all do
    without_content: np.ndarray | None = None  # bool (N,): which texts without an answer have no content
    explain: Callable[[int, int], dict[str, Any]] | None = None  # explains a label of a text, both by number


def mix_with_neighbors(
    predictions: Predictions, datastore: Store, k: int, temperature: float, weight: float, shown: int = 0
) -> Mixture:
    """Mix the labels of k neighbors with a classifier's probabilities, if any; find ``shown`` neighbors if more."""
    neighbors = datastore.search(predictions.retrieval_embeddings, max(k, shown), predictions.passages)
    label_names = neighbors.label_names
    voting_distances = neighbors.distances[:, :k]
    knn = knn_probabilities(voting_distances, neighbors.labels[:, :k], len(label_names), temperature)
    # calibrate() uses equation 2 without the smoothing: with it, there was no measurable difference.
    knn = add_one_smoothing(knn, len(datastore), datastore.multi_label)
    weights = np.zeros(neighbors.distances.shape)
    weights[:, :k] = neighbor_weights(voting_distances, temperature)
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    mixture = knn
    if classifier is not None:
        new_labels = len(label_names) - classifier.shape[1]  # labels that only the datastore has
        classifier = np.pad(classifier, ((0, 0), (0, new_labels)))
        mixture = interpolate(knn, classifier, weight)
    return Mixture(
        mixture=mixture,
        knn=knn,
        classifier=classifier,
        weights=weights,
        neighbors=neighbors,
        label_names=label_names,
    )


def answer_of(
    mixture: Mixture, row: int, top_k: int | None, shown: Shown, best_only: bool, rejected: str | None = None
) -> Any:
    """The best label of a text with all neighbors, or ``top_k`` labels with theirs; ``rejected`` marks no answer."""
    scores = mixture.mixture[row]
    count = min(shown.neighbors, mixture.weights.shape[1])
    neighbors = [_neighbor(mixture, row, rank) for rank in range(count)]
    answers = []
    for label in np.argsort(-scores, kind="stable")[: 1 if best_only else top_k]:
        name = mixture.label_names[label]
        answer = {"label": name, "score": float(scores[label])}
        if shown.neighbors:
            of_label = [neighbor for neighbor in neighbors if name in _labels(neighbor)]
            answer["neighbors"] = neighbors if best_only else of_label
        if shown.explanation:
            answer["explanation"] = mixture.explain(row, int(label))
        answers.append(answer)
    best = answers[0]
    if best_only and mixture.thresholds is not None:
        above = np.flatnonzero(scores >= mixture.thresholds)
        best["labels"] = [mixture.label_names[label] for label in above]
    if mixture.accepted is not None and not mixture.accepted[row]:
        best["label"] = rejected
        if mixture.without_content is not None and mixture.without_content[row]:
            best["reason"] = NO_CONTENT
    if shown.novelty:
        best["novelty"] = float(mixture.novelty[row])
    if shown.read:
        best["read"] = float(mixture.shares[row])
    if shown.documents:
        best["documents"] = [_document(mixture, row, rank) for rank in range(mixture.documents.rows.shape[1])]
    return best if best_only else answers


def _labels(neighbor: dict[str, Any]) -> list[str]:
    return neighbor["labels"] if "labels" in neighbor else [neighbor.get("label")]


def _neighbor(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    neighbor = mixture.neighbors.example(row, rank) | {"weight": float(mixture.weights[row, rank])}
    neighbor |= _text_passage(mixture, mixture.neighbors, row, rank)
    return {name: value for name, value in neighbor.items() if name != "text_pair" or value is not None}


def _document(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    document = mixture.documents.example(row, rank) | _text_passage(mixture, mixture.documents, row, rank)
    return {name: value for name, value in document.items() if name != "labels" and value is not None}


def _text_passage(mixture: Mixture, found: Any, row: int, rank: int) -> dict[str, Any]:
    """The passage of the text that a neighbor is nearest to, if the text has several."""
    if mixture.passages is None or mixture.passages.counts[row] == 1:
        return {}
    _, spans = mixture.passages.of(row)
    start, end = spans[found.query_passage(row, rank)].tolist()
    return {"text_passage": {"start": start, "end": end, "text": mixture.texts[row][start:end]}}
