"""Choice of triplets in a batch, and the triplet loss (Liang et al. 2023, section 2.2 and appendix B)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..training.distributed import gather, gather_with_gradient, process_index

TRIPLET_CHOICES = ("random", "hardest")


class Triplets(NamedTuple):
    """Positive and negative of each of A anchors: positions among the candidates, int64 ``(A,)`` each."""

    positives: torch.Tensor
    negatives: torch.Tensor


def triplet_losses_of_batch(
    embeddings: torch.Tensor, labels: torch.Tensor, strategy: str, margin: float, generator: torch.Generator
) -> torch.Tensor:
    """Triplet loss of each text of a batch, ``(B,)``, with candidates from the batches of all processes.

    The embeddings are ``(B, D)``, the labels ``(B,)``, or ``(B, L)`` of 0 and 1. See ``choose_triplets``.
    """
    candidates = gather_with_gradient(embeddings)
    candidate_labels = gather(labels)
    positions = torch.arange(len(labels), device=labels.device) + process_index() * len(labels)
    with torch.no_grad():
        distances = squared_distances(embeddings, candidates)
        same_label = same_labels(labels, candidate_labels)
        triplets = choose_triplets(distances, same_label, positions, strategy, generator)
    return triplet_loss(embeddings, candidates[triplets.positives], candidates[triplets.negatives], margin)


def same_labels(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Whether anchors and candidates share a label, bool ``(A, C)``; labels are ``(A,)`` and ``(C,)``, or multi-hot."""
    if anchors.ndim == 1:
        return anchors[:, None] == candidates[None]
    return (anchors != 0).float() @ (candidates != 0).float().T > 0


def squared_distances(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Squared L2 distances of anchors ``(A, D)`` to candidates ``(C, D)``, float32 ``(A, C)``.

    The mean of the candidates is subtracted first: otherwise small distances between long vectors vanish by rounding.
    """
    with torch.autocast(anchors.device.type, enabled=False):
        center = candidates.float().mean(0)
        anchors = anchors.float() - center
        candidates = candidates.float() - center
        norms = anchors.square().sum(1)[:, None] + candidates.square().sum(1)[None]
        return (norms - 2 * anchors @ candidates.T).clamp(min=0)


@torch.no_grad()
def choose_triplets(
    distances: torch.Tensor,
    same_label: torch.Tensor,
    anchor_positions: torch.Tensor,
    strategy: str = "random",
    generator: torch.Generator | None = None,
) -> Triplets:
    """Choose a positive and a negative for each anchor.

    The positive has the same label as the anchor; if no candidate has it, the anchor is its own positive. The negative
    has another label; if no candidate has one, it is a random other instance, or in a batch of one the anchor (Liang et
    al. 2023, appendix B). From several, ``"random"`` chooses at random, and ``"hardest"`` the farthest positive and the
    nearest negative (Hermans et al. 2017).

    Random numbers are drawn for all candidates as anchors, ``(2, C, C)``, and each anchor uses the row of its position.
    So several processes choose the same triplets as one process with the whole batch and the same seed.

    Args:
        distances: Squared distances of anchors to candidates, ``(A, C)``.
        same_label: Whether they share a label, bool ``(A, C)``.
        anchor_positions: Positions of the anchors among the candidates, int64 ``(A,)``.
        strategy: One of ``TRIPLET_CHOICES``.
        generator: The source of random numbers. None: the default generator of the CPU.

    Returns:
        The triplets.
    """
    total = distances.shape[1]
    is_anchor = torch.nn.functional.one_hot(anchor_positions, total).bool()
    positives = same_label & ~is_anchor
    negatives = ~same_label & ~is_anchor
    has_positive = positives.any(1, keepdim=True)
    has_negative = negatives.any(1, keepdim=True)
    positives = torch.where(has_positive, positives, is_anchor)
    negatives = torch.where(has_negative, negatives, ~is_anchor if total > 1 else is_anchor)
    noise_device = "cpu" if generator is None else generator.device
    noise = torch.rand(2, total, total, generator=generator, device=noise_device).to(distances.device)
    positive_score, negative_score = noise[:, anchor_positions]
    if strategy == "hardest":
        distances = distances.float().nan_to_num()  # infinity marks candidates that are not allowed
        positive_score = distances
        negative_score = torch.where(has_negative, -distances, negative_score)
    return Triplets(positives=_best(positive_score, positives), negatives=_best(negative_score, negatives))


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


def _best(score: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Position of the allowed candidate with the highest score, int64 ``(A,)``."""
    return score.masked_fill(~allowed, -torch.inf).argmax(1)
