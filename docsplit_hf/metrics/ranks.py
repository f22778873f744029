"""Metrics of retrieval: ranks of the right candidates, and what is computed of them."""

from __future__ import annotations

import torch


def rank_metrics(ranks: torch.Tensor) -> dict[str, float]:
    """Compute ``recall@1``, ``recall@10``, ``mrr`` and ``chance_recall@1`` by ranks from 1 among N, ``(N,)``."""
    return {
        "recall@1": (ranks <= 1).float().mean().item(),
        "recall@10": (ranks <= 10).float().mean().item(),
        "mrr": ranks.reciprocal().mean().item(),
        "chance_recall@1": 1 / len(ranks),
    }


def ranks_of_right(
    similarities: torch.Tensor, right: torch.Tensor, document_ids: torch.Tensor | None = None
) -> torch.Tensor:
    """Rank of the ``right`` candidate, from 1, ``(R,)``, by similarities ``(R, N)``; tied candidates rank before it.

    ``document_ids`` ``(N,)`` are equal for duplicates; duplicates of the right candidate are ignored.
    """
    rows = torch.arange(len(right), device=right.device)
    better = ~(similarities < similarities[rows, right][:, None])  # also true of NaN, so that it never ranks first
    better[rows, right] = False
    if document_ids is not None:
        better &= document_ids[right][:, None] != document_ids[None]
    return better.sum(1) + 1
