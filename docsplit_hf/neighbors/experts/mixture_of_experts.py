"""The answers of the fitted experts, in the form of the mixture of equation 3."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..mixing.knn_distribution import neighbor_weights
from ..mixing.mixture import Mixture
from .explanation import explain
from .fitted_experts import ask_experts

if TYPE_CHECKING:
    from ...models.inference.batched_inference import Predictions
    from .fitted_experts import ReadyExperts


def mix_experts(
    ready: ReadyExperts,
    predictions: Predictions,
    texts: list[str],
    k: int,
    temperature: float,
    shown: int,
) -> Mixture:
    """Ask the experts about N embedded texts; the nearest examples are looked up only to be ``shown``."""
    embeddings, has_head = predictions.retrieval_embeddings, predictions.logits.shape[1] > 0
    answers = ask_experts(ready, embeddings, texts, predictions.logits if has_head else None)
    neighbors, weights = None, np.zeros((len(texts), 0))
    if shown:
        neighbors = ready.snapshot.search(embeddings, max(k, shown))
        weights = np.zeros(neighbors.distances.shape)
        weights[:, :k] = neighbor_weights(neighbors.distances[:, :k], temperature)
    names, why = ready.snapshot.label_names, partial(explain, answers, ready.fitted)
    thresholds = ready.fitted.thresholds(names)
    return Mixture(answers.probabilities, None, None, weights, neighbors, names, thresholds=thresholds, explain=why)
