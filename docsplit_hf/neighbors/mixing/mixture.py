"""The mixture of N texts, and the answers made from it: labels, scores, and what speaks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .distributions import add_one_smoothing, classifier_probabilities, interpolate, knn_probabilities, neighbor_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...models.inference.long_documents import Passages
    from ...models.inference.reader import Predictions
    from ..store.snapshot import Neighbors
    from ..store.store import Store


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
    """Look up the neighbors of embedded texts, and mix what their labels say with what the classifier says.

    Without a head the neighbors alone decide. At least ``shown`` neighbors are looked up; those beyond k have no
    weight. The classifier gives labels that came after its training probability 0.
    """
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
    """The answer to one text: the best label with all neighbors, or ``top_k`` labels, each with its own neighbors.

    ``rejected`` is the label of a text that is not accepted; its score stays that of the best label.
    """
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
