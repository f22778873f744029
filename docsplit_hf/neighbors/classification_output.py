"""From a mixture to the output of a text-classification pipeline: labels, scores, and what speaks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .mixing.mixture import Mixture


class Shown(NamedTuple):
    """What is shown beside an answer."""

    neighbors: int = 0  # how many of the nearest examples
    documents: int = 0  # how many of the nearest documents without labels
    explanation: bool = False
    novelty: bool = False
    read: bool = False  # which share of the text was read


def classification_output(
    mixture: Mixture, row: int, top_k: int | None, shown: Shown, best_only: bool, reject_label: str | None = None
) -> Any:
    """The output for one text: the best label with all neighbors, or ``top_k`` labels, each with its own.

    A text that is not accepted gets ``reject_label``, with the score that the best label has.
    """
    scores = mixture.mixture[row]
    count = min(shown.neighbors, mixture.weights.shape[1])
    neighbors = [_neighbor(mixture, row, rank) for rank in range(count)]
    outputs = []
    for label in np.argsort(-scores, kind="stable")[: 1 if best_only else top_k]:
        name = mixture.label_names[label]
        output = {"label": name, "score": float(scores[label])}
        if shown.neighbors:
            speaking = [n for n in neighbors if name in n.get("labels", [n.get("label")])]
            output["neighbors"] = neighbors if best_only else speaking
        if shown.explanation:
            output["explanation"] = mixture.explain(row, int(label))
        outputs.append(output)
    if best_only and mixture.thresholds is not None:
        has_label = scores >= mixture.thresholds
        outputs[0]["labels"] = [name for name, has in zip(mixture.label_names, has_label, strict=True) if has]
    if mixture.accepted is not None and not mixture.accepted[row]:
        outputs[0]["label"] = reject_label
    if shown.novelty:
        outputs[0]["novelty"] = float(mixture.novelty[row])
    if shown.read:
        outputs[0]["read"] = float(mixture.shares[row])
    if shown.documents:
        outputs[0]["documents"] = [_document(mixture, row, rank) for rank in range(mixture.documents.rows.shape[1])]
    return outputs[0] if best_only else outputs


def _neighbor(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    neighbor = mixture.neighbors.example(row, rank) | {"weight": float(mixture.weights[row, rank])}
    neighbor |= _text_passage(mixture, mixture.neighbors, row, rank)
    return neighbor if neighbor["text_pair"] is not None else {k: v for k, v in neighbor.items() if k != "text_pair"}


def _text_passage(mixture: Mixture, found: Any, row: int, rank: int) -> dict[str, Any]:
    """Which passage of the text, where it has several, the neighbor is nearest to."""
    if mixture.passages is None or mixture.passages.counts[row] == 1:
        return {}
    start, end = mixture.passages.of(row)[1][found.query_passage(row, rank)].tolist()
    return {"text_passage": {"start": start, "end": end, "text": mixture.texts[row][start:end]}}


def _document(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    document = mixture.documents.example(row, rank) | _text_passage(mixture, mixture.documents, row, rank)
    return {name: value for name, value in document.items() if name != "labels" and value is not None}
