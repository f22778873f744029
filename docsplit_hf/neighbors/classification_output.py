"""From a mixture to the output of a text-classification pipeline: labels, scores, the neighbors that speak for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .mixing.mixture import Mixture


def classification_output(mixture: Mixture, row: int, top_k: int | None, shown: int, best_only: bool) -> Any:
    """The output for one text: the best label with all ``shown`` neighbors, or ``top_k`` labels, each with its own."""
    scores = mixture.mixture[row]
    neighbors = [_neighbor(mixture, row, rank) for rank in range(min(shown, mixture.weights.shape[1]))]
    outputs = []
    for label in np.argsort(-scores, kind="stable")[: 1 if best_only else top_k]:
        name = mixture.label_names[label]
        output = {"label": name, "score": float(scores[label])}
        if shown:
            speaking = [n for n in neighbors if name in n.get("labels", [n.get("label")])]
            output["neighbors"] = neighbors if best_only else speaking
        outputs.append(output)
    return outputs[0] if best_only else outputs


def _neighbor(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    neighbor = mixture.neighbors.example(row, rank) | {"weight": float(mixture.weights[row, rank])}
    return neighbor if neighbor["text_pair"] is not None else {k: v for k, v in neighbor.items() if k != "text_pair"}
