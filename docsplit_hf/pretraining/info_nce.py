"""InfoNCE as a function of embeddings, with candidates from all processes."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch.nn import functional

from ..training.distributed import gather, gather_with_gradient, process_index

SIMILARITIES = ("cosine", "dot")


class InfoNCE(NamedTuple):
    """A contrastive loss and its statistics, with one value for each anchor, ``(A,)``."""

    loss: torch.Tensor  # to be averaged over the anchors
    correct: torch.Tensor  # 1 if the positive is the most similar of all candidates, else 0
    positive_similarity: torch.Tensor
    negative_similarity: torch.Tensor  # the mean; 0 without negatives
    negatives: torch.Tensor  # the number of negatives


def info_nce(
    anchors: torch.Tensor,
    candidates: torch.Tensor,
    temperature: float = 0.05,
    first_positive: int = 0,
    anchor_ids: torch.Tensor | None = None,
    candidate_ids: torch.Tensor | None = None,
    similarity: str = "cosine",
) -> InfoNCE:
    """InfoNCE with in-batch negatives (SimLTE, equation 1; SimCSE, equation 1).

    For anchor ``a_i`` with positive ``c_j``, ``j = first_positive + i``, and similarity ``s``::

        loss_i = -log( exp(s(a_i, c_j) / temperature) / sum_k exp(s(a_i, c_k) / temperature) )

    It deviates from the papers' code twice: similarities are computed in float32 (in bfloat16 their errors, divided by
    0.05, are up to 0.1), and duplicates of the anchor's document are left out of the sum instead of being pushed away.
    Embeddings in float64 stay in float64.

    ``anchors``: ``(A, D)``. ``candidates``: ``(C, D)``, the positives of these anchors, from row ``first_positive`` on,
    and those of other anchors. ``anchor_ids``, ``candidate_ids``: ids of their documents; None: no duplicates.
    """
    if first_positive + len(anchors) > len(candidates):
        raise ValueError(
            f"The positives of {len(anchors)} anchors begin at row {first_positive}, but there are {len(candidates)} "
            "candidates: give a candidate for each anchor."
        )
    with torch.autocast(anchors.device.type, enabled=False):
        anchors = comparable(anchors, similarity)
        candidates = comparable(candidates, similarity)
        similarities = anchors @ candidates.T  # (A, C)
    anchor_count, candidate_count = similarities.shape
    targets = torch.arange(anchor_count, device=similarities.device) + first_positive  # (A,)
    is_positive = targets[:, None] == torch.arange(candidate_count, device=similarities.device)
    is_negative = ~is_positive
    if anchor_ids is not None:
        is_negative &= anchor_ids[:, None] != candidate_ids[None]
    logits = (similarities / temperature).masked_fill(~(is_positive | is_negative), -torch.inf)
    negatives = is_negative.sum(1)
    with torch.no_grad():
        correct = (logits.argmax(1) == targets).float()
        positive_similarity = similarities.gather(1, targets[:, None])[:, 0]
        negative_sum = similarities.masked_fill(~is_negative, 0).sum(1)
    return InfoNCE(
        loss=functional.cross_entropy(logits, targets, reduction="none"),
        correct=correct,
        positive_similarity=positive_similarity,
        negative_similarity=negative_sum / negatives.clamp(min=1),
        negatives=negatives.float(),
    )


def comparable(embeddings: torch.Tensor, similarity: str) -> torch.Tensor:
    """Prepare embeddings so that their dot products are the similarities: of norm 1 for ``"cosine"``.

    Float64 stays float64; other dtypes become float32.
    """
    embeddings = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    return functional.normalize(embeddings) if similarity == "cosine" else embeddings


def in_batch_info_nce(
    embeddings: torch.Tensor, document_ids: torch.Tensor, temperature: float, similarity: str
) -> InfoNCE:
    """InfoNCE among the documents of a batch: the mean over all pairs of views a < b, a as anchors, b as positives.

    ``embeddings``: ``(VB, D)``; rows i, B+i, ... are the V views of document i.
    """
    views = embeddings.split(len(document_ids))
    gathered = [gather_with_gradient(view) for view in views[1:]]  # the positives of all processes
    candidate_ids = gather(document_ids)
    results = []
    for anchor, positive in itertools.combinations(range(len(views)), 2):
        # [:] makes a tensor for each pair, whose gradients are summed first: so results are those of earlier versions.
        results.append(
            info_nce(
                views[anchor][:],
                gathered[positive - 1][:],
                temperature=temperature,
                first_positive=process_index() * len(document_ids),
                anchor_ids=document_ids,
                candidate_ids=candidate_ids,
                similarity=similarity,
            )
        )
    return InfoNCE._make(sum(values) / len(values) for values in zip(*results, strict=True))
