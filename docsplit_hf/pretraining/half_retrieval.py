"""Half-document retrieval: metrics of how well one half of a document finds the other among those of others."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch
from tqdm.auto import tqdm

from ..metrics.registry import rank_metrics, ranks_of_right
from ..reading.segmentation.sentences import get_segmenter
from .views import docsplit

logger = logging.getLogger(__name__)

ROWS_AT_ONCE = 1024  # the N x N matrix of a large set would not fit into memory


def half_texts(
    texts: Sequence[str], seed: int, language: str = "en", show_progress: bool = True
) -> tuple[list[str], list[str]]:
    """Assign the sentences of each text at random to two halves, as DocSplit does in pretraining.

    Texts of one sentence, which have no halves, and repeated texts, whose halves would be ambiguous, are left out.
    """
    segment = get_segmenter("pysbd", language)
    first_places: dict[str, int] = {}  # of each distinct text
    for place, text in enumerate(texts):
        first_places.setdefault(text, place)
    first = []
    second = []
    for text, place in tqdm(first_places.items(), desc="Splitting", unit="text", disable=not show_progress):
        sentences = segment(text)
        if len(sentences) < 2:
            continue
        half, other_half = docsplit(
            tokens=np.arange(len(sentences)),  # sentences in place of tokens
            sentence_lengths=np.ones(len(sentences), dtype=np.int64),
            rng=np.random.default_rng([seed, place]),
        )
        first.append("".join(sentences[number] for number in half))
        second.append("".join(sentences[number] for number in other_half))
    left_out = f"{len(first_places) - len(first)} of one sentence, {len(texts) - len(first_places)} repeated"
    logger.info(f"Halves of {len(first)} of {len(texts)} documents. Left out: {left_out}.")
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} of {len(texts)} documents can be halved ({left_out}), and two are needed: give more or "
            "longer documents."
        )
    return first, second


def half_retrieval_metrics(
    anchors: torch.Tensor, positives: torch.Tensor, document_ids: torch.Tensor | None = None
) -> dict[str, float]:
    """Rank the halves of all documents for each first half, by cosine similarity.

    ``anchors``, ``positives``: the halves of N documents, ``(N, D)`` each. ``document_ids``: ``(N,)``, equal for
    duplicates, which do not count as wrong. Equal similarities are ranked before the right half. Returns ``recall@1``,
    ``recall@10``, ``mrr``, and ``chance_recall@1``, that of random guessing.
    """
    anchors = torch.nn.functional.normalize(anchors.float(), dim=1)
    positives = torch.nn.functional.normalize(positives.float(), dim=1)
    ranks = [
        ranks_of_right(anchors[rows] @ positives.T, rows, document_ids)
        for rows in torch.arange(len(anchors), device=anchors.device).split(ROWS_AT_ONCE)
    ]
    return rank_metrics(torch.cat(ranks).cpu())


def describe_progress(log_history: list[dict[str, float]], output_dir: str) -> str:
    """Describe the results of a run on the screen: the first evaluation as "before", the last as "after"."""
    lines = ["", f'The encoder is in {output_dir}. Load it: DocumentEncoder.from_pretrained("{output_dir}")']
    evaluations = evaluations_by_step(log_history)
    if not evaluations:
        return "\n".join(lines)
    before = evaluations[0]
    after = evaluations[-1]
    chance = next(value for name, value in after.items() if name.endswith("chance_recall@1"))
    lines.append(f"Given one half of one of {round(1 / chance)} held-out documents, it finds the other half among all:")
    meanings = {"recall@1": "as the first of all", "recall@10": "among the first ten"}
    for name in after:
        metric = name.rpartition("_")[2]
        if metric not in meanings or "chance" in name:
            continue
        result = f"{100 * after[name]:5.1f} %"
        if len(evaluations) > 1:
            change = 100 * (after[name] - before[name])
            result = f"before {100 * before[name]:5.1f} %   after {result}   {change:+.1f} points"
        lines.append(f"  {name.removeprefix('eval_'):<9}  {result}  ({meanings[metric]})")
    lines.append(
        f"  guessing   {100 * chance:5.1f} %  (as the first of all; one document is {100 * chance:.1f} points)"
    )
    return "\n".join(lines)


def evaluations_by_step(log_history: list[dict[str, float]]) -> list[dict[str, float]]:
    """The evaluations in a Trainer's log, in order; evaluations of several data sets at one step are merged."""
    by_step: dict[float, dict[str, float]] = {}
    for logs in log_history:
        if any(name.startswith("eval_") and name.endswith("mrr") for name in logs):
            by_step.setdefault(logs["step"], {}).update(logs)
    return list(by_step.values())
