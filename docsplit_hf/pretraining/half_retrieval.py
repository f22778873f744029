"""Half-document retrieval: given one half of each document, find the other among all."""

from __future__ import annotations

from collections.abc import Sequence

import evaluate
import torch

from ..metrics.mrr import MRR
from ..metrics.recall_at_k import RecallAtK
from ..metrics.retrieval_scores import ranks_of_right

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

    ``anchors`` and ``positives``: ``(N, D)``, the halves of document i in row i. ``document_ids``: ``(N,)``, equal for
    duplicates. It gives ``recall@k`` of each cutoff, ``mrr``, the mean of 1 / rank, and ``chance_recall@1``: 1 / N.
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
    """What a run has reached, for its last screen: its first evaluation is "before" and its last "after"."""
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
    """The evaluations among a Trainer's logs, those of several data sets at one step put together, in order."""
    steps: dict[float, dict[str, float]] = {}
    for logs in log_history:
        if any(name.startswith("eval_") and name.endswith("mrr") for name in logs):
            steps.setdefault(logs["step"], {}).update(logs)
    return list(steps.values())
