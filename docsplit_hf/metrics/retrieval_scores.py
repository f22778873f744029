"""Ranks, of which the metrics of retrieval are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def ranks_of_right(
    similarities: torch.Tensor, right: torch.Tensor, document_ids: torch.Tensor | None = None
) -> torch.Tensor:
    """The rank, from 1, of the right one among the candidates, ``(R,)``; behind those that are exactly as similar.

    ``similarities``: ``(R, N)``. ``right``: int64 ``(R,)``. ``document_ids``: ``(N,)``, equal for duplicates; those of
    the right candidate do not count.
    """
    rows = torch.arange(len(right), device=right.device)
    better = ~(similarities < similarities[rows, right][:, None])  # NaN counts as better: what is broken is not perfect
    better[rows, right] = False
    if document_ids is not None:
        better &= document_ids[right][:, None] != document_ids[None]
    return better.sum(1) + 1


def ranks_and_candidates(predictions: Any, references: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Ranks from 1, and how many candidates there were, int64 ``(N,)`` each, from what a metric was given."""
    given, right = torch.from_numpy(np.asarray(predictions)), torch.from_numpy(np.asarray(references))
    if len(right) == 0:
        raise ValueError("There are no examples to evaluate.")
    if given.ndim == 1 and len(given) == len(right):
        return given, right
    if given.ndim != 2 or right.shape != given.shape[:1]:
        raise ValueError(
            "predictions must be scores of shape (N, M) and references the right candidates (N,); or predictions ranks "
            f"(N,) and references numbers of candidates (N,); got {tuple(given.shape)} and {tuple(right.shape)}."
        )
    return ranks_of_right(given, right), torch.full_like(right, given.shape[1])
