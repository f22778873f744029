"""From distributions to the answers of a text-classification pipeline, with the neighbors that speak for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .mixture import Mixture


def make_answer(mixture: Mixture, row: int, top_k: int | None, return_neighbors: int, best_only: bool) -> Any:
    """The answer for one text.

    Args:
        mixture: The distributions of some texts.
        row: Which of them.
        top_k: How many labels to give, best first; None for all.
        return_neighbors: How many of the nearest examples to give.
        best_only: Give the best label alone instead of a list.

    Returns:
        ``{"label": ..., "score": ...}`` with all the neighbors asked for; or a list of them, each with those of the
        neighbors that have its label.
    """
    scores = mixture.mixture[row]
    neighbors = [_neighbor(mixture, row, j) for j in range(min(return_neighbors, mixture.weights.shape[1]))]
    if best_only:
        best = int(scores.argmax())
        answer = {"label": mixture.label_names[best], "score": float(scores[best])}
        return {**answer, "neighbors": neighbors} if return_neighbors else answer
    count = len(scores) if top_k is None else min(top_k, len(scores))
    answers = []
    for label in np.argsort(-scores, kind="stable")[:count]:
        name = mixture.label_names[label]
        answer = {"label": name, "score": float(scores[label])}
        if return_neighbors:
            answer["neighbors"] = [n for n in neighbors if name in n.get("labels", [n.get("label")])]
        answers.append(answer)
    return answers


def _neighbor(mixture: Mixture, row: int, rank: int) -> dict[str, Any]:
    example = mixture.neighbors.example(row, rank) | {"weight": float(mixture.weights[row, rank])}
    return example if example["text_pair"] is not None else {k: v for k, v in example.items() if k != "text_pair"}
