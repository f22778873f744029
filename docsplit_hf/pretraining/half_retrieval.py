"""Halves of documents: as texts, and how well one half finds the other."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch
from tqdm.auto import tqdm

from ..metrics.registry import rank_metrics, ranks_of_right
from ..text.segmentation.sentences import get_segmenter
from .views import docsplit

logger = logging.getLogger(__name__)

ROWS_AT_ONCE = 1024


def half_texts(
    texts: Sequence[str], seed: int, language: str = "en", show_progress: bool = True
) -> tuple[list[str], list[str]]:
    """Assign the sentences of each text at random to two halves, as DocSplit does in pretraining.

    Texts of one sentence have no halves, and a repeated text could not be told from the first: both are left out.
    """
    segment = get_segmenter("pysbd", language)
    first, second = [], []
    places: dict[str, int] = {}
    for number, text in enumerate(texts):
        places.setdefault(text, number)
    for text, number in tqdm(places.items(), desc="Splitting", unit="text", disable=not show_progress):
        sentences = segment(text).sentences
        if len(sentences) < 2:
            continue
        rows, ones = np.arange(len(sentences)), np.ones(len(sentences), dtype=np.int64)
        one, other = docsplit(rows, ones, np.random.default_rng([seed, number]))
        first.append("".join(sentences[row] for row in one))
        second.append("".join(sentences[row] for row in other))
    left_out = f"{len(places) - len(first)} of one sentence, {len(texts) - len(places)} repeated"
    logger.info(f"Halves of {len(first)} of {len(texts)} documents. Left out: {left_out}.")
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} of {len(texts)} documents have halves ({left_out}): two are needed at least. "
            "Give more, and longer ones."
        )
    return first, second


def half_retrieval_metrics(
    anchors: torch.Tensor, positives: torch.Tensor, document_ids: torch.Tensor | None = None
) -> dict[str, float]:
    """``recall@1``, ``recall@10``, ``mrr`` and ``chance_recall@1`` of the other half among all, by cosine similarity.

    ``anchors``, ``positives``: ``(N, D)``, the halves of document i in row i. ``document_ids``: ``(N,)``, equal for
    duplicates, whose halves do not count as wrong. Of equal similarities the right one is ranked last.
    """
    anchors = torch.nn.functional.normalize(anchors.float(), dim=1)
    positives = torch.nn.functional.normalize(positives.float(), dim=1)
    chunks = torch.arange(len(anchors), device=anchors.device).split(ROWS_AT_ONCE)  # no N x N matrix of a large set
    ranks = torch.cat([ranks_of_right(anchors[rows] @ positives.T, rows, document_ids) for rows in chunks]).cpu()
    return rank_metrics(ranks, torch.full_like(ranks, len(ranks)))


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
