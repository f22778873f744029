"""InfoNCE as a function of embeddings, and the candidates that it compares with, of all processes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch.nn import functional

from ..training.distributed import gather, gather_with_gradient, process_index

SIMILARITIES = ("cosine", "dot")


class InfoNCE(NamedTuple):
    """A contrastive loss and what it was computed from, one value per anchor, ``(A,)`` each."""

    loss: torch.Tensor  # to be averaged over the anchors
    correct: torch.Tensor  # 1 where the positive is the most similar of all candidates, else 0
    positive_similarity: torch.Tensor
    negative_similarity: torch.Tensor  # the mean; 0 without negatives
    negatives: torch.Tensor  # how many there were


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

    Two deviations from the papers' code: similarities are computed in float32 (in bfloat16 they are off by up to 0.1
    once divided by 0.05), and duplicates of the anchor's document are left out of the sum instead of being pushed away.

    ``anchors``: ``(A, D)``; ``candidates``: ``(C, D)``, the positives of these anchors, from ``first_positive`` on, and
    of others; the ids name their documents, None: there are no duplicates.
    """
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
    """Embeddings whose dot products are the similarity: float32, of norm 1 for ``"cosine"``."""
    return functional.normalize(embeddings.float()) if similarity == "cosine" else embeddings.float()


def gather_candidates(
    positives: torch.Tensor, document_ids: torch.Tensor, gather_negatives: bool
) -> tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]:
    """What the anchors of this process are compared with: its positives ``(B, D)``, or those of all, with gradients.

    It gives what ``info_nce`` takes: candidates, where the own ones begin, own document ids, the candidates'.
    """
    if not gather_negatives:
        return positives, 0, document_ids, document_ids
    first = process_index() * len(document_ids)
    return gather_with_gradient(positives), first, document_ids, gather(document_ids)


def in_batch_info_nce(
    embeddings: torch.Tensor,
    document_ids: torch.Tensor,
    temperature: float,
    similarity: str,
    gather_negatives: bool,
    dimensions: Collection[int] = (),
) -> InfoNCE:
    """InfoNCE among the documents of a batch, the mean over all pairs of views a < b: view a looks for view b.

    ``embeddings``: ``(VB, D)``, rows i, B+i, ... being the V views of document i.
    ``dimensions``: of how many leading dimensions beside all D; the mean over these as well (Matryoshka).
    """
    views = embeddings.split(len(document_ids))

    @functools.cache  # gathered once per view
    def candidates(positive: int) -> tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]:
        return gather_candidates(views[positive], document_ids, gather_negatives)

    def of_pair(anchor: int, positive: int, size: int) -> InfoNCE:
        compared, *names = candidates(positive)
        return info_nce(views[anchor][:, :size], compared[:, :size], temperature, *names, similarity)

    pairs = list(itertools.combinations(range(len(views)), 2))
    sizes = {embeddings.shape[1], *dimensions}
    results = [of_pair(*pair, size) for pair in pairs for size in sizes]
    return InfoNCE(*(sum(values) / len(values) for values in zip(*results, strict=True)))
