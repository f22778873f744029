"""Triplets of a batch and their loss, as pure functions of tensors (Liang et al. 2023, section 2.2 and appendix B)."""

from __future__ import annotations

import torch

TRIPLET_CHOICES = ("random", "hardest")


def same_labels(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Which candidates have the label of which anchor (Liang et al. 2023, appendix B).

    The paper has one label a text. With several, the same label means to share at least one; a text without any label
    shares none with anybody.

    Args:
        anchors: Numbers ``(A,)``, or ``(A, L)`` of 0 and 1 (float, bool or int) for several labels a text.
        candidates: ``(C,)`` or ``(C, L)``.

    Returns:
        ``(A, C)``, bool.

    Raises:
        ValueError: If the shapes do not fit.

    Example:

        >>> same_labels(torch.tensor([0, 1]), torch.tensor([0, 1, 0]))
        tensor([[ True, False,  True],
                [False,  True, False]])
    """
    if anchors.ndim not in (1, 2) or anchors.shape[1:] != candidates.shape[1:]:
        raise ValueError(
            "labels must be of shape (A,) and (C,), or (A, L) and (C, L) for several labels a text, got "
            f"{tuple(anchors.shape)} and {tuple(candidates.shape)}."
        )
    if anchors.ndim == 1:
        return anchors[:, None] == candidates[None]
    return (anchors != 0).float() @ (candidates != 0).float().T > 0


def squared_distances(anchors: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Squared L2 distances of all anchors to all candidates, for choosing among them.

    By ``|a|^2 + |c|^2 - 2 a c``, in float32 whatever the dtype of the embeddings. What all embeddings have in common is
    subtracted first, or rounding would hide small distances between long vectors. For the loss itself, which has few
    pairs, ``triplet_loss`` sums squared differences.

    Args:
        anchors: ``(A, D)``.
        candidates: ``(C, D)``.

    Returns:
        ``(A, C)``, float32, not negative.

    Example:

        >>> squared_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[25.,  1.]])
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
    """Choose a positive and a negative for each anchor (Liang et al. 2023, appendix B).

    The positive is another instance of the same label in the batch; if there is none, the anchor itself. The negative
    is an instance of another label; if there is none, any other instance at random. In a batch of one instance there
    is no other: the negative is the anchor itself, and the loss has no gradient.

    Which one of several the paper does not say. ``"random"`` takes any with equal probability. ``"hardest"`` takes the
    farthest positive and the nearest negative (batch hard, Hermans et al. 2017); where appendix B says "at random", it
    is at random there too.

    The noise that decides is drawn for all candidates as anchors, ``(2, C, C)``, and each anchor reads its own row. So
    processes that gather their candidates, each with its own anchors, choose what one process with the whole batch
    would, if their generators are seeded alike.

    Args:
        distances: ``(A, C)``; only the hardest are chosen by them.
        same_label: ``(A, C)``, bool, as ``same_labels`` gives it.
        anchor_positions: Where each anchor stands among the candidates, ``(A,)``, int64.
        strategy: ``"random"`` or ``"hardest"``.
        generator: Where the noise comes from. None: torch's global generator.

    Returns:
        The positives ``(A,)`` and the negatives ``(A,)``, int64: places among the candidates.

    Raises:
        ValueError: If there is no such strategy, or the shapes do not fit.

    Example:

        >>> labels = torch.tensor([0, 0, 1])
        >>> positives, negatives = choose_triplets(torch.zeros(3, 3), same_labels(labels, labels), torch.arange(3))
        >>> positives, negatives[:2]
        (tensor([1, 0, 2]), tensor([2, 2]))
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
    """The triplet loss on squared L2 distances (Liang et al. 2023, equation 4)::

        loss_i = max( |a_i - p_i|^2 - |a_i - n_i|^2 + margin, 0 )

    The margin is the paper's mu, whose value it does not give. Distances are sums of squared differences in float32,
    whatever the dtype of the embeddings.

    Args:
        anchors: ``(A, D)``.
        positives: ``(A, D)``.
        negatives: ``(A, D)``. Gradients flow through all three.
        margin: 0 or above.

    Returns:
        ``(A,)``, float32, to be averaged over the anchors.

    Raises:
        ValueError: If the margin is below 0.

    Example:

        >>> anchors, positives, negatives = torch.tensor([[0.0]]), torch.tensor([[2.0]]), torch.tensor([[1.0]])
        >>> triplet_loss(anchors, positives, negatives, margin=0.5)
        tensor([3.5000])
    """
    if not margin >= 0:
        raise ValueError(f"margin must be 0 or above, got {margin}.")
    anchors, positives, negatives = anchors.float(), positives.float(), negatives.float()
    return ((anchors - positives).square().sum(1) - (anchors - negatives).square().sum(1) + margin).relu()


def _best(score: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return score.masked_fill(~allowed, -torch.inf).argmax(1)
