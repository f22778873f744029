"""citation: whether one document cites another, told from their two embeddings (DocSplit, section 4.4; SimDE)."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import issparse, vstack
from sklearn.preprocessing import normalize

from docsplit_hf.evaluation.systems import Features
from docsplit_hf.finetuning.metrics_of_parts import prediction_metrics

from ..evaluation.experiment import Evaluation, Experiment, Plan, once_per_seed
from ..evaluation.protocols import check_features
from ..papers_options import PaperSettings
from ..tasks.citation_pairs import Pair, PairTask
from .perceptron import fit_mlp

logger = logging.getLogger(__name__)

HEAD_WIDTHS = (512, 256)
BATCH_SIZE = 32
HELD_OUT_SHARE = 0.1


class PairFeatures(NamedTuple):
    """Features of both documents of each pair, ``(P, D)``, and whether the first cites the second, int64 ``(P,)``."""

    first: Features
    second: Features
    labels: np.ndarray


def pair_head_accuracy(train: PairFeatures, test: PairFeatures, seed: int) -> float:
    """Classify pairs with the head of the Long Range Arena on their frozen embeddings, which are dense::

        [e1, e2] -> Dense(512) -> ReLU -> Dense(256) -> ReLU -> Dense(2)

    (Tay et al. 2020: ``matching/configs``, ``common_layers.py``), in LRA's batches of 32. LRA trains the encoder too.
    Here the head is trained by ``fit_mlp`` until the loss on all pairs of a tenth of the citing documents rises; equal
    embeddings count as one document.
    """
    kept, held_out = hold_out_groups([row.tobytes() for row in train.first], HELD_OUT_SHARE, seed)
    predict = fit_mlp(
        np.hstack([train.first, train.second]),
        train.labels,
        kept,
        held_out,
        hidden_widths=HEAD_WIDTHS,
        batch_size=BATCH_SIZE,
        seed=seed,
    )
    predictions = predict(np.hstack([test.first, test.second]))
    return prediction_metrics(predictions, test.labels)["accuracy"]


def cosine_threshold_accuracy(train: PairFeatures, test: PairFeatures) -> float:
    """Predict a citation where the cosine of two embeddings is above a threshold. Not in the papers.

    The threshold is the one with the highest accuracy on the training pairs. Nothing else is trained, so it measures
    the embeddings alone.
    """
    threshold = best_threshold(_cosines(train), train.labels)
    logger.info(f"Pairs with a cosine above {threshold:.3f} are taken for citations.")
    return prediction_metrics(_cosines(test) > threshold, test.labels)["accuracy"]


def best_threshold(scores: np.ndarray, labels: np.ndarray) -> float:
    """The lowest of the most accurate thresholds for predicting 1: halfway between two scores, or infinite."""
    scores = np.asarray(scores, dtype=np.float64)
    distinct = np.unique(scores)
    thresholds = np.concatenate([[-np.inf], (distinct[1:] + distinct[:-1]) / 2, [np.inf]])
    zeros_below = np.searchsorted(np.sort(scores[labels == 0]), thresholds, "right")
    ones_below = np.searchsorted(np.sort(scores[labels == 1]), thresholds, "right")
    return float(thresholds[np.argmax(zeros_below - ones_below)])  # the number of right predictions, less a constant


def hold_out_groups(groups: Sequence[Hashable], share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to keep and those to hold out, ascending: at least one group is held out, and at least one kept."""
    # An array of dtype object, since one of bytes would drop trailing zeros.
    number, distinct = pd.factorize(np.array([*groups, None], dtype=object)[:-1])
    count = min(max(round(share * len(distinct)), 1), len(distinct) - 1)
    is_held_out = np.isin(number, np.random.default_rng(seed).permutation(len(distinct))[:count])
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def pair_features(evaluation: Evaluation) -> tuple[PairFeatures, PairFeatures]:
    """Features of the training and the test pairs of a ``PairTask``; the system is fitted on the training documents."""
    task = evaluation.task
    if len({label for *_, label in task.train}) < 2:
        raise ValueError(
            f"All {len(task.train)} training pairs have the label {task.train[0][2]}: there is nothing to tell apart."
        )
    train_ids = list(dict.fromkeys(key for *ids, _ in task.train for key in ids))
    known = set(train_ids)
    other_ids = [key for key in task.documents_by_id if key not in known]
    texts = [[task.documents_by_id[key] for key in ids] for ids in (train_ids, other_ids) if ids]
    parts = evaluation.system.features(*texts)
    stacked = vstack(parts) if issparse(parts[0]) else np.vstack(parts)
    features = check_features(stacked, "the features of the documents")
    row = {key: number for number, key in enumerate([*train_ids, *other_ids])}

    def features_of(pairs: Sequence[Pair]) -> PairFeatures:
        return PairFeatures(
            first=features[[row[first] for first, _, _ in pairs]],
            second=features[[row[second] for _, second, _ in pairs]],
            labels=np.array([label for _, _, label in pairs], dtype=np.int64),
        )

    return features_of(task.train), features_of(task.test)


def _cosines(pairs: PairFeatures) -> np.ndarray:
    first = normalize(pairs.first)
    second = normalize(pairs.second)
    product = first.multiply(second) if issparse(first) else first * second
    return np.asarray(product.sum(axis=1)).ravel()


def _plan(task: PairTask, settings: PaperSettings) -> Plan:
    return once_per_seed("citation", {"max_length": settings.max_length}, settings, _measure)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    train, test = evaluation.once(pair_features)
    metrics = {"cosine_accuracy": cosine_threshold_accuracy(train, test)}
    if issparse(train.first):  # as wide as a vocabulary: the head would have tens of millions of weights
        return metrics
    return {"accuracy": pair_head_accuracy(train, test, seed)} | metrics


CITATION = Experiment("whether one paper cites another", (PairTask,), _plan)
