"""Contrastive losses, as pure functions of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional

SIMILARITIES = ("cosine", "dot")


class InfoNCE(NamedTuple):
    """A contrastive loss and what it was computed from, each of shape ``(A,)``: one value an anchor.

    Args:
        loss: The loss, to be averaged over the anchors.
        correct: 1 where the positive is the most similar of all candidates, else 0.
        positive_similarity: Similarity to the positive.
        negative_similarity: Mean similarity to the negatives; 0 without negatives.
        negatives: The number of negatives that were used.
    """

    loss: torch.Tensor
    correct: torch.Tensor
    positive_similarity: torch.Tensor
    negative_similarity: torch.Tensor
    negatives: torch.Tensor


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

    Two deviations from the papers' code: similarities are computed in float32 whatever the dtype of the embeddings
    (in bfloat16 they are off by up to 0.1 once divided by 0.05), and candidates that are duplicates of the anchor's
    document are left out of the sum instead of being pushed away.

    Args:
        anchors: ``(A, D)``.
        candidates: ``(C, D)``, the positives of these anchors and of others.
        temperature: Above 0.
        first_positive: Where the anchors' own positives begin among the candidates.
        anchor_ids: ``(A,)``, names of the anchors' documents. None: there are no duplicates.
        candidate_ids: ``(C,)``, names of the candidates' documents.
        similarity: ``"cosine"``, as in the papers, or ``"dot"``, the dot product of the embeddings as they are, as in
            Contriever.

    Returns:
        The loss and the statistics of each anchor.

    Raises:
        ValueError: If the temperature is not above 0, or there is no such similarity.

    Example:

        >>> same = torch.ones(4, 8)  # nothing to tell them apart by: log 4
        >>> round(info_nce(same, same).loss.mean().item(), 4)
        1.3863
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, got {temperature}. The papers use 0.05.")
    with torch.autocast(anchors.device.type, enabled=False):
        similarities = comparable(anchors, similarity) @ comparable(candidates, similarity).T  # (A, C)
    targets = torch.arange(len(anchors), device=anchors.device) + first_positive  # (A,)
    is_positive = functional.one_hot(targets, len(candidates)).bool()
    is_negative = ~is_positive
    if anchor_ids is not None:
        is_negative &= anchor_ids[:, None] != candidate_ids[None]
    logits = (similarities / temperature).masked_fill(~(is_positive | is_negative), -torch.inf)
    negatives = is_negative.sum(1)
    with torch.no_grad():
        negative_sum = similarities.masked_fill(~is_negative, 0).sum(1)
        statistics = (
            (logits.argmax(1) == targets).float(),
            similarities[is_positive],
            negative_sum / negatives.clamp(min=1),
            negatives.float(),
        )
    return InfoNCE(functional.cross_entropy(logits, targets, reduction="none"), *statistics)


def comparable(embeddings: torch.Tensor, similarity: str) -> torch.Tensor:
    """Embeddings whose dot products are the similarity that was asked for.

    Args:
        embeddings: ``(N, D)``.
        similarity: ``"cosine"`` or ``"dot"``.

    Returns:
        float32 of shape ``(N, D)``; of norm 1 for ``"cosine"``.

    Raises:
        ValueError: If there is no such similarity.

    Example:

        >>> comparable(torch.tensor([[3.0, 4.0]]), "cosine")
        tensor([[0.6000, 0.8000]])
    """
    if similarity not in SIMILARITIES:
        raise ValueError(f"similarity must be one of {SIMILARITIES}, got {similarity!r}.")
    return functional.normalize(embeddings.float()) if similarity == "cosine" else embeddings.float()


def mean_of(results: Sequence[InfoNCE]) -> InfoNCE:
    """The mean of the losses of several pairs of views, and of what they were computed from.

    Of one pair in both directions, it is the loss of CLIP and of most sentence embedding models since; the papers use
    one direction, as SimCSE does.

    Args:
        results: ``info_nce`` of the same documents, at least one.

    Returns:
        The mean of each field.

    Example:

        >>> a, b = torch.eye(3), torch.eye(3)
        >>> mean_of([info_nce(a, b), info_nce(b, a)]).loss.equal(info_nce(a, b).loss)
        True
    """
    return InfoNCE(*(sum(values) / len(values) for values in zip(*results, strict=True)))
