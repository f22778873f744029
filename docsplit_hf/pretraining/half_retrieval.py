"""Half-document retrieval: given one half of each document, find the other among all."""

from __future__ import annotations

from collections.abc import Sequence

import evaluate
import torch

from ..metrics.mrr import MRR
from ..metrics.recall_at_k import RecallAtK
from ..metrics.retrieval import ranks_of_right

ROWS_AT_ONCE = 1024


def half_retrieval_metrics(
    anchors: torch.Tensor,
    positives: torch.Tensor,
    document_ids: torch.Tensor | None = None,
    cutoffs: tuple[int, ...] = (1, 10),
) -> dict[str, float]:
    """Recall and mean reciprocal rank of the other half, by cosine similarity.

    It needs no labels, so it works on any corpus. Halves of duplicates of the document itself do not count as wrong.
    Where another half is exactly as similar as the right one, the right one is ranked behind it.

    Args:
        anchors: Embeddings of the first halves, ``(N, D)``.
        positives: Embeddings of the second halves, ``(N, D)``; row i belongs to row i of the anchors.
        document_ids: ``(N,)``, equal for duplicates. None: there are none.
        cutoffs: The k of recall@k.

    Returns:
        ``recall@k`` for each cutoff, the share of anchors whose other half is among the k nearest; ``mrr``, the mean of
        1 / rank; and ``chance_recall@1``, what guessing gives: 1 / N.

    Example:

        >>> halves = torch.eye(4)
        >>> half_retrieval_metrics(halves, halves[[0, 1, 3, 2]], cutoffs=(1,))["recall@1"]
        0.5
    """
    anchors = torch.nn.functional.normalize(anchors.float(), dim=1)
    positives = torch.nn.functional.normalize(positives.float(), dim=1)
    rows = torch.arange(len(anchors), device=anchors.device)
    chunks = rows.split(ROWS_AT_ONCE)  # so that a large set needs no N x N matrix
    return rank_metrics([ranks_of_right(anchors[rows] @ positives.T, rows, document_ids) for rows in chunks], cutoffs)


def rank_metrics(ranks: Sequence[torch.Tensor], cutoffs: tuple[int, ...] = (1, 10)) -> dict[str, float]:
    """``recall@k``, ``mrr`` and ``chance_recall@1`` of the ranks of all anchors, in any number of parts."""
    rank = torch.cat(list(ranks)).cpu()
    metrics = evaluate.combine([RecallAtK(k=cutoffs), MRR()])
    found = metrics.compute(predictions=rank, references=torch.full_like(rank, len(rank)))
    return {name: found[name] for name in (*(f"recall@{k}" for k in cutoffs), "mrr", "chance_recall@1")}


def describe_progress(log_history: list[dict[str, float]], output_dir: str) -> str:
    """What a run has reached, for its last screen.

    Args:
        log_history: The Trainer's logs; the first evaluation is taken as "before" and the last as "after".
        output_dir: Where the encoder is.

    Returns:
        A few lines of text.

    Example:

        >>> print(describe_progress([], "output"))
        <BLANKLINE>
        The encoder is in output. Load it: DocumentEncoder.from_pretrained("output")
    """
    lines = ["", f'The encoder is in {output_dir}. Load it: DocumentEncoder.from_pretrained("{output_dir}")']
    evaluations = evaluations_by_step(log_history)
    if not evaluations:
        return "\n".join(lines)
    before, after = evaluations[0], evaluations[-1]
    guessing = next(value for name, value in after.items() if name.endswith("chance_recall@1"))
    held_out = round(1 / guessing)
    lines.append(f"Given one half of one of {held_out} held-out documents, it finds the other half among all:")
    meanings = {"recall@1": "as the first of all", "recall@10": "among the first ten"}
    for name in (name for name in after if name.rpartition("_")[2] in meanings and "chance" not in name):
        end = f"{100 * after[name]:5.1f} %"
        if len(evaluations) > 1:
            change = 100 * (after[name] - before[name])
            end = f"before {100 * before[name]:5.1f} %   after {end}   {change:+.1f} points"
        lines.append(f"  {name.removeprefix('eval_'):<9}  {end}  ({meanings[name.rpartition('_')[2]]})")
    lines.append(
        f"  guessing   {100 * guessing:5.1f} %  (as the first of all; one document is {100 * guessing:.1f} points)"
    )
    return "\n".join(lines)


def evaluations_by_step(log_history: list[dict[str, float]]) -> list[dict[str, float]]:
    """The evaluations among a Trainer's logs, those of several data sets at one step put together.

    Args:
        log_history: The Trainer's logs.

    Returns:
        One dictionary a step, in order, with ``step`` and everything that was evaluated.

    Example:

        >>> logs = [{"step": 1, "loss": 2.0}, {"step": 1, "eval_a_mrr": 0.5}, {"step": 1, "eval_b_mrr": 0.25}]
        >>> evaluations_by_step(logs)
        [{'step': 1, 'eval_a_mrr': 0.5, 'eval_b_mrr': 0.25}]
    """
    steps: dict[float, dict[str, float]] = {}
    for logs in log_history:
        if any(name.startswith("eval_") and name.endswith("mrr") for name in logs):
            steps.setdefault(logs["step"], {}).update(logs)
    return list(steps.values())
