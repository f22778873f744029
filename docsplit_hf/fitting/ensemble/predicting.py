"""Predictions by fitted experts, with shown neighbors and explanations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...arrays.snapshot import SearchResult
from ..experts.registry import EXPERTS
from ..label_sets import label_sets
from ..label_tree import FLAT, NO_LEVEL
from ..prediction import CallOptions, Explanation, Prediction, ShownText, TextInputs
from ..rejection import RejectionLimits
from .explaining import deciding_place, explain
from .scoring import PreparedExperts, Scores, score_texts

PROBABILITY_TOLERANCE = 1e-6  # equal passages of a text differ by rounding; the first of them is shown


class VotersForDisplay:
    """Voting texts as answers show them, nearest first.

    Examples have their labels, documents the most probable label that was propagated to them.
    """

    def __init__(self, experts: PreparedExperts, scored: Scores) -> None:
        nearest = scored.nearest
        self._ensemble = experts.ensemble
        self._columns = scored.columns
        self._nearest = nearest
        # Texts that do not vote have an infinite distance; each query shows as many neighbors as all queries have.
        most = nearest.distances.shape[1]
        count = int(np.isfinite(nearest.distances).sum(1).min(initial=most))
        self._order = np.argsort(nearest.distances, axis=1, kind="stable")[:, :count]
        self.weights = np.take_along_axis(scored.votes, self._order, axis=1)

    def example(self, query: int, rank: int) -> ShownText:
        """Describe one neighbor of a text; rank 0 is the nearest."""
        found, column = self._at(query, rank)
        shown = found.example(query, column)
        if found is self._nearest.examples:
            return shown
        soft_labels = self._ensemble.learned.soft_labels[self._nearest.places[query, column]]
        names = [self._nearest.examples.label_names[number] for number in self._columns]
        if self._ensemble.multi_label:
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
        examples = self._nearest.examples.rows.shape[1]
        return (self._nearest.examples, column) if column < examples else (self._nearest.documents, column - examples)


@dataclass(frozen=True, eq=False)
class Explainer:
    """Explains labels of scored texts."""

    experts: PreparedExperts
    inputs: TextInputs
    scored: Scores
    # By text: of each of its passages, ``(p, L)``. The labels of a text are explained one by one.
    by_passage: dict[int, np.ndarray] = field(default_factory=dict)

    def explain(self, row: int, label: int) -> Explanation:
        """Explain a label of a text, both by number."""
        inputs = self.inputs
        explanation = explain(self.scored, self.experts.ensemble, row, label)
        passages = inputs.embedded.passages
        origin = inputs.origins[row]
        if passages is not None and passages.counts[row] > 1:
            probabilities = self._probabilities_of_passages(row)[:, label]
            best = int(np.flatnonzero(probabilities >= probabilities.max() - PROBABILITY_TOLERANCE)[0])
            explanation["passage"] = inputs.passage(row, best)
        elif origin is not None and len(origin.places) > 1:
            place = deciding_place(self.scored, self.experts.ensemble, row, label, inputs.texts[row], origin)
            if place is not None:
                explanation["passage"] = inputs.span(row, place.start, place.end)
        return explanation

    def _probabilities_of_passages(self, row: int) -> np.ndarray:
        """Score each passage of a text; head logits are those of the whole text.

        Not by style: what is typical was measured on whole texts, whose lengths are others.
        """
        if row not in self.by_passage:
            ensemble = self.experts.ensemble
            weights = {name: 0.0 if EXPERTS[name].reads_style else own for name, own in ensemble.weights.items()}
            without_style = self.experts._replace(ensemble=replace(ensemble, weights=weights))
            embeddings, spans = self.inputs.embedded.passages.of(row)
            parts = [self.inputs.texts[row][start:end] for start, end in spans]
            head_logits = self.inputs.embedded.logits[[row] * len(parts)]
            self.by_passage[row] = score_texts(without_style, embeddings, parts, head_logits).probabilities
        return self.by_passage[row]


def predict_with_experts(
    experts: PreparedExperts,
    inputs: TextInputs,
    options: CallOptions,
) -> Prediction:
    """Predict labels by fitted experts, with what the options of the call request."""
    limits = options.get("reject")
    labels_at = options.get("labels_at")
    with_novelty = options.get("return_novelty", False) or limits is not None
    embedded = inputs.embedded
    scored = score_texts(
        experts,
        embedded.retrieval_embeddings,
        inputs.texts,
        embedded.logits,
        embedded.passages,
        with_closeness=with_novelty,
        min_neighbors=options.get("return_neighbors", 0),
    )
    guarantees = experts.fitted.guarantees
    label_names = scored.nearest.examples.label_names
    tree = experts.fitted.tree_of(label_names) if guarantees.tree else FLAT
    novelty = guarantees.novelty(scored.familiarity()) if with_novelty else None
    levels = None
    has_no_content = None
    if limits is not None:
        if limits.each_label:
            levels = _levels_by_label(experts, scored, novelty, limits)
        else:
            levels = guarantees.answered_levels(scored.probabilities, novelty, limits.error, limits.novelty, tree)
        has_no_content = np.array([experts.content.is_missing(text) for text in inputs.texts], bool)
        levels = np.where(has_no_content, NO_LEVEL, levels)
    is_in_set, per_class = (None, False) if labels_at is None else _label_sets(experts, scored, labels_at)
    voters = VotersForDisplay(experts, scored) if options.get("return_neighbors") else None
    return Prediction(
        inputs=inputs,
        options=options,
        label_names=label_names,
        probabilities=scored.probabilities,
        neighbors=voters,
        neighbor_weights=None if voters is None else voters.weights,
        thresholds=experts.thresholds,
        novelty=novelty,
        tree=tree,
        levels=levels,
        has_no_content=has_no_content,
        is_in_set=is_in_set,
        labels_per_class=per_class,
        explain=Explainer(experts, inputs, scored).explain,
    )


def _levels_by_label(
    experts: PreparedExperts, scored: Scores, novelty: np.ndarray, limits: RejectionLimits
) -> np.ndarray:
    """Level of each text with a threshold for each label, ``(N,)``; labels that are new since ``fit`` get no text."""
    guarantees = experts.fitted.guarantees
    thresholds = np.full(scored.probabilities.shape[1], np.inf)
    thresholds[scored.columns] = guarantees.label_thresholds(limits.error, limits.novelty)
    sure = guarantees.confidence(scored.probabilities, novelty, limits.novelty)
    return np.where(sure >= thresholds[scored.probabilities.argmax(1)], 0, NO_LEVEL)


def _label_sets(experts: PreparedExperts, scored: Scores, level: float) -> tuple[np.ndarray, bool]:
    """Choose the sets of labels, bool ``(N, L)``, and whether the level holds for each label.

    Labels without examples at the last ``fit`` have the limit of all labels.
    """
    limits = experts.fitted.guarantees.label_set_limits(level)
    all_limits = np.full(scored.probabilities.shape[1], limits.by_label.max())
    all_limits[scored.columns] = limits.by_label
    is_in_set = label_sets(scored.probabilities, all_limits)
    is_fitted = np.isin(np.arange(len(all_limits)), scored.columns)
    is_possible = is_fitted | (scored.probabilities > 0)  # other labels may have no example at all
    return is_in_set & is_possible, limits.per_class
