"""Choice of triplets in a batch, and the triplet loss (Liang et al. 2023, section 2.2 and appendix B)."""

from __future__ import annotations

import torch

from ..training.distributed import gather, gather_with_gradient, process_index


def triplet_losses_of_batch(
    embeddings: torch.Tensor, labels: torch.Tensor, margin: float, generator: torch.Generator
) -> torch.Tensor:
    """Triplet loss of each text of a batch, ``(B,)``, with candidates from the batches of all processes.

    The embeddings are ``(B, D)``, the labels ``(B,)``, or ``(B, L)`` of 0 and 1. See ``choose_triplets``.
    """
    candidates = gather_with_gradient(embeddings)
    candidate_labels = gather(labels)
    positions = torch.arange(len(labels), device=labels.device) + process_index() * len(labels)
    positives, negatives = choose_triplets(same_labels(labels, candidate_labels), positions, generator)
    return triplet_loss(embeddings, candidates[positives], candidates[negatives], margin)


def same_labels(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Whether anchors and candidates share a label, bool ``(A, C)``; labels are ``(A,)`` and ``(C,)``, or multi-hot."""
    if anchors.ndim == 1:
        return anchors[:, None] == candidates[None]
    return (anchors != 0).float() @ (candidates != 0).float().T > 0


def choose_triplets(
    same_label: torch.Tensor,
    anchor_positions: torch.Tensor,
    generator: torch.Generator,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose a positive and a negative for each anchor at random.

    The positive has the same label as the anchor; if no candidate has it, the anchor is its own positive. The negative
    has another label; if no candidate has one, it is a random other instance, or in a batch of one the anchor (Liang et
    al. 2023, appendix B).

    Random numbers are drawn for all candidates as anchors, ``(2, C, C)``, and each anchor uses the row of its position.
    So several processes choose the same triplets as one process with the whole batch and the same seed.

    Args:
        same_label: Whether anchors and candidates share a label, bool ``(A, C)``.
        anchor_positions: Positions of the anchors among the candidates, int64 ``(A,)``.
        generator: The source of random numbers.

    Returns:
        The positive and the negative of each anchor: positions among the candidates, int64 ``(A,)`` each.
    """
    total = same_label.shape[1]
    is_anchor = torch.nn.functional.one_hot(anchor_positions, total).bool()
    positives = same_label & ~is_anchor
    negatives = ~same_label & ~is_anchor
    has_positive = positives.any(1, keepdim=True)
    has_negative = negatives.any(1, keepdim=True)
    positives = torch.where(has_positive, positives, is_anchor)
    negatives = torch.where(has_negative, negatives, ~is_anchor if total > 1 else is_anchor)
    noise = torch.rand(2, total, total, generator=generator, device=generator.device).to(same_label.device)
    positive_score, negative_score = noise[:, anchor_positions]
    best_positives = positive_score.masked_fill(~positives, -torch.inf).argmax(1)
    best_negatives = negative_score.masked_fill(~negatives, -torch.inf).argmax(1)
    return best_positives, best_negatives


def triplet_loss(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, margin: float
) -> torch.Tensor:
    """Triplet loss on squared L2 distances (Liang et al. 2023, equation 4), float32 ``(A,)``::

        loss_i = max( |a_i - p_i|^2 - |a_i - n_i|^2 + margin, 0 )

    ``anchors``, ``positives`` and ``negatives`` are ``(A, D)``, with gradients.
    """
    anchors = anchors.float()
    to_positives = (anchors - positives.float()).square().sum(1)
    to_negatives = (anchors - negatives.float()).square().sum(1)
    return (to_positives - to_negatives + margin).relu()
