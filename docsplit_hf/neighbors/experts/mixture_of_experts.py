"""The answers of the fitted experts, in the form of the mixture of equation 3."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..mixing.mixture import Mixture
from .content import have_no_content
from .experts import SHIFT, SOFT
from .fitted_experts import ask_experts
from .word_experts import SHARPNESS

if TYPE_CHECKING:
    from ...models.inference.text_embedder import Predictions
    from ..mixing.mixture import Shown
    from ..store.snapshot import Neighbors
    from .fitted_experts import Answers, FittedExperts, ReadyExperts


class ShownVoters:
    """The texts that voted, nearest first: an example with its label, a document with the likeliest spread to it."""

    def __init__(self, ready: ReadyExperts, answers: Answers) -> None:
        nearest = answers.nearest
        self._ready, self._columns, self._examples, self._documents = ready, answers.columns, *nearest[:2]
        there = int(np.isfinite(nearest.distances).sum(1).min(initial=nearest.distances.shape[1]))
        self._order = np.argsort(nearest.distances, axis=1, kind="stable")[:, :there]
        self.weights = np.take_along_axis(answers.votes, self._order, axis=1)

    def example(self, query: int, rank: int) -> dict[str, Any]:
        """One of them, as ``Neighbors.example`` gives it."""
        found, column = self._at(query, rank)
        shown = found.example(query, column)
        if found is self._examples:
            return shown
        soft = self._ready.fitted.learned[SOFT][self._ready.places[found.rows[query, column]]]
        names = [self._ready.snapshot.label_names[number] for number in self._columns]
        if self._ready.fitted.several:
            return shown | {"labels": [name for name, share in zip(names, soft, strict=True) if share >= 0.5]}
        label = {"label": names[int(soft.argmax())], "label_probability": float(soft.max())}
        return label | {name: value for name, value in shown.items() if name != "labels"}

    def query_passage(self, query: int, rank: int) -> int:
        """Which passage of the query it is nearest to, by number."""
        found, column = self._at(query, rank)
        return int(found.query_passages[query, column])

    def _at(self, query: int, rank: int) -> tuple[Neighbors, int]:
        column, examples = int(self._order[query, rank]), self._examples.rows.shape[1]
        return (self._examples, column) if column < examples else (self._documents, column - examples)


def mix_experts(
    ready: ReadyExperts,
    predictions: Predictions,
    texts: list[str],
    shown: Shown,
    reject: float | None = None,
    most_lost: float | None = None,
) -> Mixture:
    """Ask the experts about N embedded texts.

    With ``reject``, those whose answers are wrong too often get none, nor do novel ones: as many as lose ``most_lost``
    of the known texts, or as many as ``fit`` chose.
    """
    with_novelty = shown.novelty or reject is not None
    passages = predictions.passages
    asked = predictions.retrieval_embeddings, texts, predictions.logits, passages
    answers = ask_experts(ready, *asked, with_closeness=with_novelty, shown=shown.neighbors)
    novelty = ready.fitted.novelty(answers.familiarity()) if with_novelty else None
    accepted = None
    without_content = None
    if reject is not None:
        sure = ready.fitted.confidence(answers.probabilities, novelty, most_lost)
        accepted = sure >= ready.fitted.answer_level(reject, most_lost)
        without_content = have_no_content(ready.snapshot, texts)
        accepted &= ~without_content
    voters = ShownVoters(ready, answers)
    names, thresholds = ready.snapshot.label_names, ready.fitted.thresholds(ready.snapshot.label_names)

    @cache  # labels of a text are explained one by one
    def of_passages(row: int) -> np.ndarray:
        """What the experts would say of each passage, ``(p, L)``; a trained classifier says of each what of all."""
        embeddings, spans = passages.of(row)
        parts = [texts[row][start:end] for start, end in spans]
        return ask_experts(ready, embeddings, parts, predictions.logits[[row] * len(parts)]).probabilities

    def why(row: int, label: int) -> dict[str, Any]:
        explanation = explain(answers, ready.fitted, row, label)
        if passages is not None and passages.counts[row] > 1:
            said = of_passages(row)[:, label]
            surest = np.flatnonzero(said >= said.max() - ALIKE)[0]  # the first of equals
            start, end = passages.of(row)[1][surest].tolist()
            explanation["passage"] = {"start": start, "end": end, "text": texts[row][start:end]}
        return explanation

    found = {"thresholds": thresholds, "novelty": novelty, "accepted": accepted, "explain": why}
    found["without_content"] = without_content
    return Mixture(answers.probabilities, None, None, voters.weights, voters, names, **found)


MOST_WORDS = 5
AFTER_FIT = "This label came after fit(): only the neighbors know it. Call fit() again, and all experts will."
ALIKE = 1e-6  # of probabilities: copies of a passage differ by rounding


def explain(answers: Answers, fitted: FittedExperts, row: int, label: int) -> dict[str, Any]:
    """Why text ``row`` has the label of number ``label`` among all labels, rather than the next best one, ``against``.

    ``experts``: what each adds to the log odds of the two, and how much more often there is the one (``class
    proportions``); ``words``: those that add most. Of a label that came after ``fit`` a ``note`` says so instead.
    """
    place = np.flatnonzero(answers.columns == label)
    if not len(place):
        return {"against": None, "experts": {}, "words": [], "note": AFTER_FIT}
    scores, own, other, shift = answers.scores[:, row], int(place[0]), None, fitted.learned[SHIFT]
    if not fitted.several:
        pooled = scores.sum(0) + shift
        pooled[own] = -np.inf
        other = int(pooled.argmax())
    odds = scores[:, own] - (0 if other is None else scores[:, other])
    experts = dict(zip(fitted.experts, odds.tolist(), strict=True))
    if other is not None and shift.any():
        experts["class proportions"] = float(shift[own] - shift[other])
    return {
        "against": None if other is None else fitted.labels[other],
        "experts": experts,
        "words": _words(answers, fitted, row, own, other),
    }


def _words(answers: Answers, fitted: FittedExperts, row: int, own: int, other: int | None) -> list[dict[str, Any]]:
    if answers.words is None or "words" not in fitted.experts:
        return []
    counts, weights = answers.words[[row]], fitted.learned["word_weights"]
    against = 0 if other is None else weights[other, counts.indices]
    factor = fitted.settings["weights"]["words"] * SHARPNESS
    odds = factor * counts.data * (weights[own, counts.indices] - against)
    best = [i for i in np.argsort(-odds, kind="stable")[:MOST_WORDS] if odds[i] > 0]
    terms = fitted.vectorizer.get_feature_names_out()
    return [{"word": str(terms[counts.indices[i]]), "weight": float(odds[i])} for i in best]
