"""The answers of the fitted experts, in the form of the mixture of equation 3."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..mixing.mixture import Mixture
from ..rejection import confidence
from .experts import SOFT
from .explanation import deciding_passage, explain, passage_probabilities
from .fitted_experts import ask_experts

if TYPE_CHECKING:
    from ...models.inference.reader import Predictions
    from ..mixing.mixture import Shown
    from ..store.snapshot import Neighbors
    from .fitted_experts import Answers, ReadyExperts


class ShownVoters:
    """The texts that voted, nearest first, as neighbors are shown: an example with its label, a document with its own.

    The label of a document is the most probable of those that ``fit`` spread to it, with ``label_probability``; of
    several labels those that are probable.
    """

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
    ready: ReadyExperts, predictions: Predictions, texts: list[str], shown: Shown, reject: float | None = None
) -> Mixture:
    """Ask the experts about N embedded texts. With ``reject``, those whose answers are wrong too often get none."""
    embeddings, has_head = predictions.retrieval_embeddings, predictions.logits.shape[1] > 0
    logits, with_novelty = predictions.logits if has_head else None, shown.novelty or reject is not None
    asked = embeddings, texts, logits, predictions.passages
    answers = ask_experts(ready, *asked, with_closeness=with_novelty, shown=shown.neighbors)
    novelty = ready.fitted.novelty(answers.familiarity()) if with_novelty else None
    accepted = None
    if reject is not None:
        accepted = confidence(answers.probabilities, novelty) >= ready.fitted.answer_level(reject)
    voters = ShownVoters(ready, answers)
    names, thresholds = ready.snapshot.label_names, ready.fitted.thresholds(ready.snapshot.label_names)

    @cache  # labels of a text are explained one by one
    def of_passages(row: int) -> np.ndarray | None:
        return passage_probabilities(ready, predictions, texts, row)

    def why(row: int, label: int) -> dict[str, Any]:
        explanation = explain(answers, ready.fitted, row, label)
        if (found := of_passages(row)) is not None:
            explanation["passage"] = deciding_passage(found, predictions.passages.of(row)[1], texts[row], label)
        return explanation

    mixture = Mixture(
        answers.probabilities, None, None, voters.weights, voters, names, thresholds=thresholds, explain=why
    )
    return mixture._replace(novelty=novelty, accepted=accepted)
