"""Triplets of a batch and their loss (Liang et al. 2023, section 2.2 and appendix B)."""

from __future__ import annotations

import torch

from ..training.distributed import gather, gather_with_gradient, process_index

TRIPLET_CHOICES = ("random", "hardest")


def triplet_losses_of_batch(
    embeddings: torch.Tensor,
    labels: torch.Tensor,
    strategy: str,
    margin: float,
    over_processes: bool,
    generator: torch.Generator,
) -> torch.Tensor:
    """The triplet loss of each text of a batch, ``(B,)``, with candidates from this batch or those of all processes.

    ``embeddings``: ``(B, D)``. ``labels``: ``(B,)``, or ``(B, L)`` of 0 and 1. See ``choose_triplets``.
    """
    candidates = gather_with_gradient(embeddings) if over_processes else embeddings
    candidate_labels = gather(labels) if over_processes else labels
    first = process_index() * len(labels) if over_processes else 0
    positions = torch.arange(len(labels), device=labels.device) + first
    with torch.no_grad():
        distances = squared_distances(embeddings, candidates)
        same = same_labels(labels, candidate_labels)
        positives, negatives = choose_triplets(distances, same, positions, strategy, generator)
    return triplet_loss(embeddings, candidates[positives], candidates[negatives], margin)


def same_labels(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Which candidates have the label of which anchor (Liang et al. 2023, appendix B), bool ``(A, C)``.

    The paper has one label per text, ``(A,)`` and ``(C,)``. With several, ``(A, L)`` and ``(C, L)`` of 0 and 1, texts
    have the same label if they share at least one.
    """
    if anchors.ndim not in (1, 2) or anchors.shape[1:] != candidates.shape[1:]:
        raise ValueError(
            "labels must be of shape (A,) and (C,), or (A, L) and (C, L) for several labels per text, got "
            f"{tuple(anchors.shape)} and {tuple(candidates.shape)}."
        )
    if anchors.ndim == 1:
        return anchors[:, None] == candidates[None]
    return (anchors != 0).float() @ (candidates != 0).float().T > 0


def squared_distances(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Squared L2 distances of anchors ``(A, D)`` to candidates ``(C, D)``, float32 ``(A, C)``, to choose among them.

    By ``|a|^2 + |c|^2 - 2 a c``. What all embeddings have in common is subtracted first, or rounding would hide small
    distances between long vectors.
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

    The positive is another instance of the same label in the batch; if there is none, the anchor itself. The negative
    is an instance of another label; if there is none, any other instance at random; in a batch of one, the anchor: its
    loss has no gradient (Liang et al. 2023, appendix B). Which one of several, the paper does not say. ``"random"``
    takes any with equal probability. ``"hardest"`` takes the farthest positive and the nearest negative (Hermans et al.
    2017); where appendix B says "at random", it is at random there too.

    The noise that decides is drawn for all candidates as anchors, ``(2, C, C)``, and each anchor reads its own row. So
    processes that gather their candidates choose what one process with the whole batch would, with the same seed.

    ``distances``: ``(A, C)``. ``same_label``: bool ``(A, C)``. ``anchor_positions``: int64 ``(A,)``, where the
    anchors stand among the candidates. ``generator``: None is torch's global one.
    """
    if strategy not in TRIPLET_CHOICES:
        raise ValueError(f"strategy must be one of {TRIPLET_CHOICES}, got {strategy!r}.")
    if not distances.shape == same_label.shape == (len(anchor_positions), distances.shape[-1]):
        raise ValueError(
            "distances and same_label must be of shape (A, C), and anchor_positions (A,), got "
            f"{tuple(distances.shape)}, {tuple(same_label.shape)} and {tuple(anchor_positions.shape)}."
        )
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

    All three are ``(A, D)``, with gradients. The margin is the paper's mu, whose value it does not give.
    """
    if not margin >= 0:
        raise ValueError(f"margin must be 0 or above, got {margin}.")
    anchors, positives, negatives = anchors.float(), positives.float(), negatives.float()
    return ((anchors - positives).square().sum(1) - (anchors - negatives).square().sum(1) + margin).relu()


def _best(score: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return score.masked_fill(~allowed, -torch.inf).argmax(1)
