"""The mixture of what the classifier and the neighbors say: equation 3 of Liang et al. 2023."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .classifier_distribution import classifier_probabilities
from .knn_distribution import add_one_smoothing, knn_probabilities, neighbor_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...models.inference.passages import Passages
    from ...models.inference.reader import Predictions
    from ..store.snapshot import Neighbors
    from ..store.store import Store


class Mixture(NamedTuple):
    """The distributions of N texts over L labels, float64 ``(N, L)``, and what they were made from."""

    mixture: np.ndarray  # equation 3, or the mixture of the fitted experts
    knn: np.ndarray | None  # equation 2 after add_one_smoothing; None of fitted experts
    classifier: np.ndarray | None  # equation 1, with zeros for labels that only the datastore has; None without a head
    weights: np.ndarray  # (N, k) or wider: what each neighbor counts in equation 2
    neighbors: Any  # Neighbors; of fitted experts, their ShownVoters
    label_names: tuple[str, ...]
    documents: Neighbors | None = None  # the nearest documents without labels, where they were asked for
    thresholds: np.ndarray | None = None  # (L,) of fitted experts, where a text may have several labels
    novelty: np.ndarray | None = None  # (N,) by fitted experts, from 0 to 1, where it was asked for
    shares: np.ndarray | None = None  # (N,): how much of each text was read
    passages: Passages | None = None  # of the texts, where any has several
    texts: Sequence[str] = ()
    accepted: np.ndarray | None = None  # bool (N,): which texts get an answer, where some may get none
    explain: Callable[[int, int], dict[str, Any]] | None = None  # why a text has a label, both by number


def interpolate(knn: np.ndarray, classifier: np.ndarray, weight: float) -> np.ndarray:
    """Equation 3, ``P(y) = weight P_KNN(y) + (1 - weight) P_CLS(y)``; all arrays are ``(N, C)``, probabilities.

    ``weight`` is the paper's lambda: 0 gives exactly the classifier, 1 exactly the neighbors.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must be from 0 (the classifier) to 1 (the neighbors), got {weight}.")
    if knn.ndim != 2 or knn.shape != classifier.shape:
        raise ValueError(f"The neighbors' probabilities are of shape {knn.shape}, the classifier's {classifier.shape}.")
    return weight * knn + (1 - weight) * classifier


def mix_with_neighbors(
    predictions: Predictions,
    datastore: Store,
    k: int,
    temperature: float,
    weight: float,
    shown: int = 0,
) -> Mixture:
    """Look up the neighbors of embedded texts, and mix what their labels say with what the classifier says.

    Without a classification head the neighbors alone decide, whatever the weight. At least ``shown`` neighbors are
    looked up; those beyond k have no weight. The classifier gives labels that came after its training probability 0.
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


def with_documents(mixture: Mixture, datastore: Store, predictions: Predictions, count: int) -> Mixture:
    """The mixture with the nearest documents without labels, if any are asked for."""
    if not count:
        return mixture
    if (documents := datastore.documents) is None:
        raise ValueError(f"return_documents={count}: there are no documents without labels, call add_documents(texts).")
    found = documents.search(predictions.retrieval_embeddings, count, predictions.passages)
    return mixture._replace(documents=found)
