"""pool_passages: from the embeddings of passages to those of views."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional


def pool_passages(embeddings: torch.Tensor, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The embeddings of the views of a batch, ``(VB, D)``, from those of its rows, ``(R, D)``.

    That of a view is the direction of the mean of its passages' embeddings, each of norm 1 first and weighted by its
    tokens, times the mean of their norms: what a document's one embedding is of its passages in inference. A batch with
    one row for each view is left as it is.
    """
    counts = batch.get("passage_counts")
    if counts is None or len(counts) == len(embeddings):
        return embeddings
    weights = batch["attention_mask"].sum(1, keepdim=True).float()
    norms = embeddings.norm(dim=1, keepdim=True)
    weighted = weights * torch.cat([functional.normalize(embeddings), norms, torch.ones_like(norms)], dim=1)
    view_of_row = torch.repeat_interleave(counts)
    sums = weighted.new_zeros(len(counts), weighted.shape[1]).index_add(0, view_of_row, weighted)
    return functional.normalize(sums[:, :-2]) * (sums[:, -2:-1] / sums[:, -1:])
