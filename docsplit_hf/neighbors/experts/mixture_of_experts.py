"""The answers of the fitted experts, in the form of the mixture of equation 3."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..mixing.knn_distribution import neighbor_weights
from ..mixing.mixture import Mixture
from ..rejection.familiarity import confidence
from .deciding_passage import deciding_passage, passage_probabilities
from .explanation import explain
from .fitted_experts import ask_experts

if TYPE_CHECKING:
    from ...models.inference.reader import Predictions
    from ..classification_output import Shown
    from .fitted_experts import ReadyExperts


def mix_experts(
    ready: ReadyExperts,
    predictions: Predictions,
    texts: list[str],
    k: int,
    temperature: float,
    shown: Shown,
    reject: float | None = None,
) -> Mixture:
    """Ask the experts about N embedded texts; the nearest examples are looked up only where they are shown.

    With ``reject`` only those texts are accepted whose answers are wrong at most so often.
    """
    embeddings, has_head = predictions.retrieval_embeddings, predictions.logits.shape[1] > 0
    logits, with_novelty = predictions.logits if has_head else None, shown.novelty or reject is not None
    answers = ask_experts(ready, embeddings, texts, logits, with_closeness=with_novelty)
    novelty = ready.fitted.novelty(answers.familiarity()) if with_novelty else None
    accepted = None
    if reject is not None:
        accepted = confidence(answers.probabilities, novelty) >= ready.fitted.answer_level(reject)
    neighbors, weights = None, np.zeros((len(texts), 0))
    if shown.neighbors:
        neighbors = ready.snapshot.search(embeddings, max(k, shown.neighbors), predictions.passages)
        weights = np.zeros(neighbors.distances.shape)
        weights[:, :k] = neighbor_weights(neighbors.distances[:, :k], temperature)
    names, thresholds = ready.snapshot.label_names, ready.fitted.thresholds(ready.snapshot.label_names)

    @cache  # labels of a text are explained one by one
    def of_passages(row: int) -> np.ndarray | None:
        return passage_probabilities(ready, predictions, texts, row)

    def why(row: int, label: int) -> dict[str, Any]:
        explanation = explain(answers, ready.fitted, row, label)
        if (found := of_passages(row)) is not None:
            explanation["passage"] = deciding_passage(found, predictions.passages.of(row)[1], texts[row], label)
        return explanation

    mixture = Mixture(answers.probabilities, None, None, weights, neighbors, names, thresholds=thresholds, explain=why)
    return mixture._replace(novelty=novelty, accepted=accepted)
