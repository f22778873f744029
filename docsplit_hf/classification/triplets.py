"""Triplets of a batch and their loss (Liang et al. 2023, section 2.2 and appendix B)."""

from __future__ import annotations

import torch

from ..training.distributed import gather, gather_with_gradient, process_index

TRIPLET_CHOICES = ("random", "hardest")


def triplet_losses_of_batch(
    embeddings: torch.Tensor, labels: torch.Tensor, strategy: str, margin: float, generator: torch.Generator
) -> torch.Tensor:
    """The triplet loss of each text of a batch, ``(B,)``, with candidates from the batches of all processes.

    ``embeddings``: ``(B, D)``. ``labels``: ``(B,)``, or ``(B, L)`` of 0 and 1. See ``choose_triplets``.
    """
    candidates, candidate_labels = gather_with_gradient(embeddings), gather(labels)
    positions = torch.arange(len(labels), device=labels.device) + process_index() * len(labels)
    with torch.no_grad():
        distances = squared_distances(embeddings, candidates)
        same = same_labels(labels, candidate_labels)
        positives, negatives = choose_triplets(distances, same, positions, strategy, generator)
    return triplet_loss(embeddings, candidates[positives], candidates[negatives], margin)


def same_labels(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Which candidates have an anchor's label, or one of its labels, of ``(A, L)`` and ``(C, L)``: bool ``(A, C)``."""
    if anchors.ndim == 1:
        return anchors[:, None] == candidates[None]
    return (anchors != 0).float() @ (candidates != 0).float().T > 0


def squared_distances(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Squared L2 distances of anchors ``(A, D)`` to candidates ``(C, D)``, float32 ``(A, C)``, to choose among them.

    What all embeddings have in common is subtracted first, or rounding would hide small distances of long vectors.
    """
    with torch.autocast(anchors.device.type, enabled=False):
        center = candidates.float().mean(0)
        anchors, candidates = anchors.float() - center, candidates.float() - center
        norms = anchors.square().sum(1)[:, None] + candidates.square().sum(1)[None]
        return (norms - 2 * anchors @ candidates.T).clamp(min=0)


@torch.no_grad()
def choose_triplets(
    distances: torch.Tensor,
    same_label: torch.Tensor,
    anchor_positions: torch.Tensor,
    strategy: str = "random",
    generator: torch.Generator | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose a positive and a negative for each anchor, as places among the candidates, int64 ``(A,)`` each.

    The positive has the same label; if there is none, it is the anchor itself. The negative has another label; if there
    is none, any other instance at random; in a batch of one, the anchor (Liang et al. 2023, appendix B). Of several,
    ``"random"`` takes any, ``"hardest"`` the farthest positive and the nearest negative (Hermans et al. 2017).

    The noise is drawn for all candidates as anchors, ``(2, C, C)``, and each anchor reads its own row, by its position
    among them. So processes choose what one process with the whole batch would, with the same seed.
    """
    total = distances.shape[1]
    itself = torch.nn.functional.one_hot(anchor_positions, total).bool()
    positives, negatives = same_label & ~itself, ~same_label & ~itself
    has_positive, has_negative = positives.any(1, keepdim=True), negatives.any(1, keepdim=True)
    positives = torch.where(has_positive, positives, itself)
    negatives = torch.where(has_negative, negatives, ~itself if total > 1 else itself)
    noise_device = "cpu" if generator is None else generator.device
    noise = torch.rand(2, total, total, generator=generator, device=noise_device).to(distances.device)
    positive_score, negative_score = noise[:, anchor_positions]
    if strategy == "hardest":
        distances = distances.float().nan_to_num()  # infinite ones must not be taken for those that are left out
        positive_score, negative_score = distances, torch.where(has_negative, -distances, negative_score)
    return _best(positive_score, positives), _best(negative_score, negatives)


def triplet_loss(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, margin: float
) -> torch.Tensor:
    """The triplet loss on squared L2 distances (Liang et al. 2023, equation 4), float32 ``(A,)``::

        loss_i = max( |a_i - p_i|^2 - |a_i - n_i|^2 + margin, 0 )

    All three are ``(A, D)``, with gradients.
    """
    anchors, positives, negatives = anchors.float(), positives.float(), negatives.float()
    return ((anchors - positives).square().sum(1) - (anchors - negatives).square().sum(1) + margin).relu()


def _best(score: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return score.masked_fill(~allowed, -torch.inf).argmax(1)
