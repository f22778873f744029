"""InfoNCE of wide batches: the similarities are computed block by block, and again in the backward pass.

Its memory is that of a few blocks and of the embeddings' gradients, however many candidates there are. The softmax of a
row is known after its last block: until then its maximum and the sum of its exponentials are carried along, as in
FlashAttention (Dao et al. 2022). Inf-CL (Cheng et al. 2024) does the same with contrastive losses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable


class InfoNCE(NamedTuple):
    """A contrastive loss and its statistics, with one value for each anchor, ``(A,)``."""

    loss: torch.Tensor  # to be averaged over the anchors
    correct: torch.Tensor  # 1 if the positive is the most similar of all candidates, else 0
    positive_similarity: torch.Tensor
    negative_similarity: torch.Tensor  # the mean; 0 without negatives
    negatives: torch.Tensor  # the number of negatives


def info_nce_by_blocks(
    anchors: torch.Tensor,
    candidates: torch.Tensor,
    temperature: float,
    first_positive: int = 0,
    anchor_ids: torch.Tensor | None = None,
    candidate_ids: torch.Tensor | None = None,
    block_size: int = 2048,
) -> InfoNCE:
    """Compute ``info_nce`` of comparable embeddings in blocks of at most ``block_size`` anchors and candidates.

    Args:
        anchors: Embeddings whose dot products are the similarities, float32 or float64, ``(A, D)``.
        candidates: Embeddings of the same dtype, ``(C, D)``.
        temperature: What similarities are divided by.
        first_positive: The row of the first anchor's positive.
        anchor_ids: Ids of the anchors' documents, ``(A,)``; None: there are no duplicates.
        candidate_ids: Ids of the candidates' documents, ``(C,)``.
        block_size: The largest number of anchors, and of candidates, in a block.

    Returns:
        The loss, with gradients of anchors and candidates, and its statistics.
    """
    loss, correct, positive_similarity, negative_similarity, negatives = _InfoNCEByBlocks.apply(
        anchors, candidates, temperature, first_positive, anchor_ids, candidate_ids, block_size
    )
    return InfoNCE(
        loss=loss,
        correct=correct,
        positive_similarity=positive_similarity,
        negative_similarity=negative_similarity,
        negatives=negatives,
    )


class _Block(NamedTuple):
    """The similarities of R anchors and K candidates."""

    rows: slice  # of the anchors
    columns: slice  # of the candidates
    diagonal: int  # the positive of the block's anchor i is its candidate i + diagonal, if it has as many
    similarities: torch.Tensor  # (R, K)
    duplicates: torch.Tensor | None  # bool (R, K): the anchor's document, but not its positive

    def rows_of_positives(self) -> slice:
        """The anchors whose positives are in the block."""
        start = self.rows.start + max(0, -self.diagonal)
        return slice(start, start + len(self.similarities.diagonal(self.diagonal)))

    def logits(self, temperature: float) -> torch.Tensor:
        """The similarities divided by the temperature, ``(R, K)``; -inf for duplicates."""
        logits = self.similarities / temperature
        return logits if self.duplicates is None else logits.masked_fill_(self.duplicates, -torch.inf)


def _blocks(
    anchors: torch.Tensor,
    candidates: torch.Tensor,
    first_positive: int,
    anchor_ids: torch.Tensor | None,
    candidate_ids: torch.Tensor | None,
    block_size: int,
) -> Iterator[_Block]:
    """Yield the blocks of some anchors one after the other, from the first candidates to the last."""
    for first_row in range(0, len(anchors), block_size):
        rows = slice(first_row, min(first_row + block_size, len(anchors)))
        for first_column in range(0, len(candidates), block_size):
            columns = slice(first_column, min(first_column + block_size, len(candidates)))
            diagonal = first_row + first_positive - first_column
            duplicates = None
            if anchor_ids is not None:
                duplicates = anchor_ids[rows, None] == candidate_ids[None, columns]
                duplicates.diagonal(diagonal).fill_(False)
            yield _Block(
                rows=rows,
                columns=columns,
                diagonal=diagonal,
                similarities=anchors[rows] @ candidates[columns].T,
                duplicates=duplicates,
            )


class _InfoNCEByBlocks(torch.autograd.Function):
    """InfoNCE with a backward pass that computes the blocks again."""

    @staticmethod
    def forward(
        ctx,
        anchors: torch.Tensor,
        candidates: torch.Tensor,
        temperature: float,
        first_positive: int,
        anchor_ids: torch.Tensor | None,
        candidate_ids: torch.Tensor | None,
        block_size: int,
    ) -> tuple[torch.Tensor, ...]:
        """The fields of ``InfoNCE``; only the loss has gradients."""
        # Not -inf: a block of duplicates only would give exp(-inf + inf).
        maximum = anchors.new_full((len(anchors),), torch.finfo(anchors.dtype).min)
        sum_of_exponentials = anchors.new_zeros(len(anchors))
        most_similar = torch.full_like(maximum, -1, dtype=torch.int64)
        positive_similarity = anchors.new_zeros(len(anchors))
        negative_sum = anchors.new_zeros(len(anchors))
        negatives = torch.full_like(maximum, len(candidates) - 1, dtype=torch.int64)
        for block in _blocks(anchors, candidates, first_positive, anchor_ids, candidate_ids, block_size):
            rows = block.rows
            logits = block.logits(temperature)
            block_maximum, place = logits.max(1)
            # Of equal candidates, the first counts, as for argmax.
            is_larger = block_maximum > maximum[rows]
            most_similar[rows] = torch.where(is_larger, place + block.columns.start, most_similar[rows])
            new_maximum = torch.maximum(maximum[rows], block_maximum)
            exponentials = logits.sub_(new_maximum[:, None]).exp_()
            earlier = sum_of_exponentials[rows] * (maximum[rows] - new_maximum).exp()
            sum_of_exponentials[rows] = earlier + exponentials.sum(1)
            maximum[rows] = new_maximum

            positives = block.similarities.diagonal(block.diagonal)
            positive_similarity[block.rows_of_positives()] = positives
            positives.zero_()  # what remains are the negatives
            if block.duplicates is not None:
                block.similarities.masked_fill_(block.duplicates, 0)
                negatives[rows] -= block.duplicates.sum(1)
            negative_sum[rows] += block.similarities.sum(1)

        targets = torch.arange(len(anchors), device=anchors.device) + first_positive
        loss = sum_of_exponentials.log() - (positive_similarity / temperature - maximum)
        correct = (most_similar == targets).float()
        negative_similarity = negative_sum / negatives.clamp(min=1)
        negatives = negatives.float()
        ctx.save_for_backward(anchors, candidates, anchor_ids, candidate_ids, maximum, sum_of_exponentials)
        ctx.temperature = temperature
        ctx.first_positive = first_positive
        ctx.block_size = block_size
        ctx.mark_non_differentiable(correct, positive_similarity, negative_similarity, negatives)
        return loss, correct, positive_similarity, negative_similarity, negatives

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: torch.Tensor, *of_statistics: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the anchors and the candidates; those of the logits are softmax minus one-hot."""
        anchors, candidates, anchor_ids, candidate_ids, maximum, sum_of_exponentials = ctx.saved_tensors
        needs_anchors, needs_candidates, *_ = ctx.needs_input_grad
        of_anchors = torch.zeros_like(anchors) if needs_anchors else None
        of_candidates = torch.zeros_like(candidates) if needs_candidates else None
        scale = gradient / ctx.temperature
        with torch.autocast(anchors.device.type, enabled=False):
            for block in _blocks(anchors, candidates, ctx.first_positive, anchor_ids, candidate_ids, ctx.block_size):
                rows = block.rows
                of_logits = block.logits(ctx.temperature).sub_(maximum[rows, None]).exp_()
                of_logits.div_(sum_of_exponentials[rows, None])
                of_logits.diagonal(block.diagonal).sub_(1)
                of_similarities = of_logits.mul_(scale[rows, None])
                if needs_anchors:
                    of_anchors[rows].addmm_(of_similarities, candidates[block.columns])
                if needs_candidates:
                    of_candidates[block.columns].addmm_(of_similarities.T, anchors[rows])
        return of_anchors, of_candidates, None, None, None, None, None
