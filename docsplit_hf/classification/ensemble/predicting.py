"""Predictions by fitted experts, with shown neighbors and explanations."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..prediction import Prediction, Rejection, ShownText, span_of
from .content import have_no_content
from .explaining import explain
from .fitted_experts import score_texts

if TYPE_CHECKING:
    from ...datastore.snapshot import SearchResult
    from ..prediction import Explanation, Shown, TextInputs
    from .fitted_experts import ReadyExperts, ScoredTexts

PROBABILITY_TOLERANCE = 1e-6  # probabilities of equal passages differ by rounding


class ShownVoters:
    """Nearest texts that voted: examples with their labels, documents with their most probable propagated labels."""

    def __init__(self, ready: ReadyExperts, scored: ScoredTexts) -> None:
        nearest = scored.nearest
        self._ready = ready
        self._columns = scored.columns
        self._examples = nearest.examples
        self._documents = nearest.documents
        width = nearest.distances.shape[1]
        count = int(np.isfinite(nearest.distances).sum(1).min(initial=width))
        self._order = np.argsort(nearest.distances, axis=1, kind="stable")[:, :count]
        self.weights = np.take_along_axis(scored.votes, self._order, axis=1)

    def example(self, query: int, rank: int) -> ShownText:
        """Describe one neighbor of a text; rank 0 is the nearest."""
        found, column = self._at(query, rank)
        shown = found.example(query, column)
        if found is self._examples:
            return shown
        fitted = self._ready.fitted
        soft_labels = fitted.ensemble.learned.soft_labels[self._ready.places[found.rows[query, column]]]
        names = [self._ready.snapshot.label_names[number] for number in self._columns]
        if fitted.multi_label:
            likely = [name for name, probability in zip(names, soft_labels, strict=True) if probability >= 0.5]
            return shown | {"labels": likely}
        best = int(soft_labels.argmax())
        label = {"label": names[best], "label_probability": float(soft_labels[best])}
        return label | {name: value for name, value in shown.items() if name != "labels"}

    def query_passage(self, query: int, rank: int) -> int:
        """Return the number of the query's passage that the neighbor is nearest to."""
        found, column = self._at(query, rank)
        return int(found.query_passages[query, column])

    def _at(self, query: int, rank: int) -> tuple[SearchResult, int]:
        column = int(self._order[query, rank])
        examples = self._examples.rows.shape[1]
        if column < examples:
            return self._examples, column
        return self._documents, column - examples


def predict_with_experts(
    ready: ReadyExperts, inputs: TextInputs, shown: Shown, reject: float | None = None, lost: float | None = None
) -> Prediction:
    """Predict labels by fitted experts.

    Args:
        ready: The experts.
        inputs: N texts with their embeddings.
        shown: What the answers show.
        reject: The error rate to allow, from 0 to 1: less confident answers, and answers to novel texts, are rejected.
            None: no answer is rejected.
        lost: The fraction of texts of known labels that may be rejected as novel. None: the default that ``fit`` chose.

    Returns:
        The prediction.
    """
    with_novelty = shown.novelty or reject is not None
    encoded = inputs.encoded
    scored = score_texts(
        ready,
        encoded.retrieval_embeddings,
        inputs.texts,
        encoded.logits,
        encoded.passages,
        with_closeness=with_novelty,
        least_neighbors=shown.neighbors,
    )
    guarantees = ready.fitted.guarantees
    novelty = guarantees.novelty(scored.familiarity()) if with_novelty else None
    rejection = None
    if reject is not None:
        confidence = guarantees.confidence(scored.probabilities, novelty, lost)
        is_confident = confidence >= guarantees.confidence_threshold(reject, lost)
        has_no_content = have_no_content(ready.snapshot, inputs.texts)
        rejection = Rejection(is_accepted=is_confident & ~has_no_content, has_no_content=has_no_content)
    voters = ShownVoters(ready, scored)
    return Prediction(
        inputs=inputs,
        label_names=ready.snapshot.label_names,
        probabilities=scored.probabilities,
        neighbors=voters,
        neighbor_weights=voters.weights,
        thresholds=ready.fitted.settings.label_thresholds(ready.snapshot.label_names),
        novelty=novelty,
        rejection=rejection,
        explain=_Explainer(ready, inputs, scored).explain,
    )


class _Explainer:
    """Makes explanations of the labels of scored texts."""

    def __init__(self, ready: ReadyExperts, inputs: TextInputs, scored: ScoredTexts) -> None:
        self._ready = ready
        self._inputs = inputs
        self._scored = scored
        self._passage_probabilities = cache(self._score_passages)  # the labels of a text are explained one by one

    def explain(self, row: int, label: int) -> Explanation:
        """Explain a label of a text; name the passage that gives it the highest probability."""
        explanation = explain(self._scored, self._ready.fitted, row, label)
        passages = self._inputs.encoded.passages
        if passages is not None and passages.counts[row] > 1:
            probabilities = self._passage_probabilities(row)[:, label]
            best = int(np.flatnonzero(probabilities >= probabilities.max() - PROBABILITY_TOLERANCE)[0])
            explanation["passage"] = span_of(self._inputs.texts[row], passages, row, best)
        return explanation

    def _score_passages(self, row: int) -> np.ndarray:
        """Score each passage, ``(p, L)``; head logits are those of the whole text."""
        embeddings, spans = self._inputs.encoded.passages.of(row)
        parts = [self._inputs.texts[row][start:end] for start, end in spans]
        head_logits = self._inputs.encoded.logits[[row] * len(parts)]
        return score_texts(self._ready, embeddings, parts, head_logits).probabilities
