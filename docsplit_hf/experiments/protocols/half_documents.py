"""half_documents: given one half of each document, find the other, with any system."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.preprocessing import normalize

from ...metrics.retrieval_scores import ranks_of_right
from ...pretraining.collation.views import docsplit
from ...pretraining.half_retrieval import ROWS_AT_ONCE, half_retrieval_metrics, rank_metrics
from ...text.segmentation.sentences import get_segmenter
from ..systems.features import Features, check_features
from ..tasks.task import ANY_TASK, EvaluationTask, language_of
from .experiment import Evaluation, Experiment, Plan, once_per_seed, sentence_settings
from .settings import EvaluationSettings

logger = logging.getLogger(__name__)


def half_texts(texts: Sequence[str], seed: int, language: str = "en") -> tuple[list[str], list[str]]:
    """Assign the sentences of each text at random to two halves, as DocSplit does in pretraining.

    Texts of one sentence have no halves, and a repeated text could not be told from the first: both are left out.
    """
    segment = get_segmenter("pysbd", language)
    first, second = [], []
    places: dict[str, int] = {}
    for number, text in enumerate(texts):
        places.setdefault(text, number)
    for text, number in places.items():
        sentences = segment(text).sentences
        if len(sentences) < 2:
            continue
        rows, ones = np.arange(len(sentences)), np.ones(len(sentences), dtype=np.int64)
        one, other = docsplit(rows, ones, np.random.default_rng([seed, number]))
        first.append("".join(sentences[row] for row in one))
        second.append("".join(sentences[row] for row in other))
    left_out = f"{len(places) - len(first)} of one sentence, {len(texts) - len(places)} repeated"
    logger.info(f"Half-document retrieval: {len(first)} of {len(texts)} documents. Left out: {left_out}.")
    if len(first) < 2:
        raise ValueError(
            f"{len(first)} of {len(texts)} documents have halves ({left_out}): there is nothing to find one among. "
            "Give more, and longer ones."
        )
    return first, second


def retrieval_metrics(first: Features, second: Features) -> dict[str, float]:
    """Recall and mean reciprocal rank of the second half, row i given row i of the first, by cosine similarity.

    Of equal similarities the right one is ranked last.
    """
    first, second = check_features(first, "the first halves"), check_features(second, "the second halves")
    if issparse(first):
        first, second = normalize(first), normalize(second)
        ranks = [
            ranks_of_right(torch.from_numpy((first[rows.numpy()] @ second.T).toarray()), rows)
            for rows in torch.arange(first.shape[0]).split(ROWS_AT_ONCE)
        ]
        metrics = rank_metrics(ranks)
    else:
        metrics = half_retrieval_metrics(torch.from_numpy(first), torch.from_numpy(second))
    return {name: metrics[name] for name in ("recall@1", "recall@10", "mrr")}


def _plan(task: EvaluationTask, settings: EvaluationSettings) -> Plan:
    return once_per_seed("half_documents", sentence_settings(task, settings), settings)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    task = evaluation.task
    first, second = half_texts(task.texts, seed, language_of(task))
    [both] = evaluation.system.features([*first, *second])  # what is fitted is fitted on all halves
    return retrieval_metrics(both[: len(first)], both[len(first) :])


HALF_DOCUMENTS = Experiment("given one half of a text, find the other", ANY_TASK, _plan, _measure)
