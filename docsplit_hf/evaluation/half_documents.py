"""half_documents: given one half of each document, find the other, with any system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from scipy.sparse import issparse
from sklearn.preprocessing import normalize

from ..metrics.registry import rank_metrics, ranks_of_right
from ..pretraining.half_retrieval import ROWS_AT_ONCE, half_retrieval_metrics, half_texts
from .evaluation_settings import EvaluationSettings
from .experiment import Evaluation, Experiment, Plan, once_per_seed, sentence_settings
from .labeled_features import check_features
from .load_system import Features
from .task import EvaluationTask


def retrieval_metrics(first: Features, second: Features) -> dict[str, float]:
    """Recall and mean reciprocal rank of the second half, row i given row i of the first, by cosine similarity.

    Of equal similarities the right one is ranked last.
    """
    first, second = check_features(first, "the first halves"), check_features(second, "the second halves")
    if issparse(first):
        first, second = normalize(first), normalize(second)
        chunks = torch.arange(first.shape[0]).split(ROWS_AT_ONCE)
        similarities = ((rows, (first[rows.numpy()] @ second.T).toarray()) for rows in chunks)
        ranks = torch.cat([ranks_of_right(torch.from_numpy(found), rows) for rows, found in similarities])
        metrics = rank_metrics(ranks, torch.full_like(ranks, len(ranks)))
    else:
        metrics = half_retrieval_metrics(torch.from_numpy(first), torch.from_numpy(second))
    return {name: metrics[name] for name in ("recall@1", "recall@10", "mrr")}


def _plan(task: EvaluationTask, settings: EvaluationSettings) -> Plan:
    return once_per_seed("half_documents", sentence_settings(task, settings), settings, _measure)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    task = evaluation.task
    first, second = half_texts(task.texts, seed, task.language)
    [both] = evaluation.system.features([*first, *second])  # what is fitted is fitted on all halves
    return retrieval_metrics(both[: len(first)], both[len(first) :])


HALF_DOCUMENTS = Experiment("given one half of a text, find the other", None, _plan)
