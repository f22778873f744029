"""Measurement of weighted experts on held-out texts: metrics, thresholds and guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..rejection import LOST, NOVEL, accuracy_interval, text_counts
from .fit_settings import FitSettings
from .fitted_experts import FittedExperts
from .guarantees import Guarantees
from .log_linear_pool import fit_weights, is_drawn_by_label, pool, spread_of_scores
from .report import (
    ENSEMBLE,
    LARGEST_CLASS,
    OF_SAMPLE,
    UNKNOWN,
    WORD_COUNTS,
    FitReport,
    Measurement,
    largest_class,
)
from .surest_error import surest_error
from .weighing import held_out_answers, held_out_probabilities

if TYPE_CHECKING:
    from ...datastore.snapshot import Snapshot
    from .expert import TrainingData
    from .held_out_scores import HeldOutScores
    from .weighing import Weighing

REPORTED_ERRORS = (0.01, 0.05, 0.1)  # error rates for which the report gives the fraction of answered texts
METRICS = ("accuracy", "macro_f1", "log_loss")
MIN_EXAMPLES_FOR_THRESHOLD = 5  # with and without a label, for a threshold of its own


class Source(NamedTuple):
    """Origin of the held-out texts and of the label proportions."""

    measured_on: str
    is_held_out_texts: bool  # not folds of the examples
    class_proportions: str  # "estimated", "uniform" or "given"
    left_out: int  # documents that were not used


def measure(data: TrainingData, weighing: Weighing, snapshot: Snapshot, source: Source) -> FittedExperts:
    """Measure an ensemble on the held-out texts, and complete the fitted experts."""
    ensemble = weighing.ensemble
    scores = weighing.scores
    multi_label = ensemble.multi_label
    probabilities = weighing.probabilities()
    draws = weighing.proportions.draws
    compares_with_documents = weighing.out_of_scope > 0
    guarantees = Guarantees(
        held_out=held_out_answers(scores, probabilities, compares_with_documents),
        proportion_draws=draws.astype(np.float32),
        multi_label=multi_label,
        default_lost=0.0,
    )
    lost = 0.0
    if compares_with_documents and guarantees.novelty_limit(LOST) < NOVEL:  # too few texts can guarantee nothing
        guarantees = guarantees._replace(default_lost=LOST)
    if compares_with_documents:
        lost = guarantees.lost_fraction()
    counts = text_counts(scores.targets > 0, draws)
    interval: list[float] = []
    answered: dict[str, float] = {}
    if not multi_label:
        interval = list(accuracy_interval(guarantees.held_out.right, counts)[1:])
        answered = {str(error): guarantees.answered_fraction(error) for error in REPORTED_ERRORS}
    report = FitReport(
        examples=len(data.rows),
        documents=len(data.corpus.ids) - len(data.rows),
        left_out=source.left_out,
        labels=ensemble.labels,
        measured_on=source.measured_on,
        texts=len(scores.targets),
        single=[name for name, total in zip(ensemble.labels, data.targets.sum(0), strict=True) if total == 1],
        shares=dict(zip(ensemble.experts, weighing.weights.relative.tolist(), strict=True)),
        proportions=dict(zip(ensemble.labels, ensemble.learned.proportions.tolist(), strict=True)),
        class_proportions=source.class_proportions,
        measured=_measurements(data, weighing, probabilities, counts.mean(0)),
        answered=answered,
        least_error=guarantees.least_error(),
        surest_error=surest_error(guarantees, ensemble.labels, snapshot, REPORTED_ERRORS),
        measured_for=_measured_for(data, source, has_draws=len(draws) > 0),
        accuracy_interval=interval,
        foreign=weighing.out_of_scope,
        novelty=guarantees.default_lost,
        lost=lost,
    )
    without_shift = held_out_probabilities(scores, weighing.weights, multi_label)
    settings = FitSettings(
        weights=dict(zip(ensemble.experts, weighing.weights.of_logits.tolist(), strict=True)),
        multi_label=multi_label,
        has_head=data.has_head,
        temperature=ensemble.temperature,
        compares_with_documents=compares_with_documents,
        log_likelihood=_log_likelihood(without_shift, scores.targets, multi_label),
        thresholds=label_thresholds(probabilities, scores.targets).tolist() if multi_label else None,
        report=report,
    )
    return FittedExperts(settings, ensemble, guarantees)


def _measured_for(data: TrainingData, source: Source, has_draws: bool) -> str:
    """Label proportions for which everything is measured."""
    is_sample = source.is_held_out_texts or not is_drawn_by_label(data.targets)
    if data.multi_label or is_sample and not has_draws:
        return OF_SAMPLE
    if not has_draws:
        return UNKNOWN
    return source.class_proportions


def _measurements(
    data: TrainingData, weighing: Weighing, probabilities: np.ndarray, counts: np.ndarray
) -> list[Measurement]:
    """Metrics of each expert alone, of the ensemble, and of two baselines, on held-out texts that stand for ``counts``.

    An expert alone has the sharpness that suits it.
    """
    scores = weighing.scores
    if not len(scores.targets):
        return []
    multi_label = data.multi_label
    labels = scores.targets.astype(int) if multi_label else scores.targets.argmax(1)
    predictions = _predictions_of_single_experts(scores, weighing.ensemble.experts, multi_label)
    predictions[ENSEMBLE] = probabilities
    if scores.word_counts is not None:
        predictions[WORD_COUNTS] = scores.word_counts
    has_draws = len(weighing.proportions.draws) > 0
    class_proportions = weighing.proportions.likeliest[None] if has_draws else data.targets
    predictions[LARGEST_CLASS] = largest_class(class_proportions, len(scores.targets), multi_label)
    return [_measurement(name, predicted, labels, counts) for name, predicted in predictions.items()]


def _predictions_of_single_experts(
    scores: HeldOutScores, experts: list[str], multi_label: bool
) -> dict[str, np.ndarray]:
    spreads = spread_of_scores(scores.scores, multi_label)
    predictions = {}
    for i, name in enumerate(experts):
        alone = scores.scores[[i]] / spreads[i]
        weights = fit_weights(alone, scores.targets, np.ones(1), multi_label)
        predictions[name] = pool(alone, weights, multi_label)
    return predictions


def _measurement(name: str, probabilities: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> Measurement:
    """``METRICS`` of probabilities, for texts that stand for ``counts`` ``(m,)``."""
    from sklearn.metrics import accuracy_score, f1_score

    from ...metrics.registry import metric_class  # which imports evaluate, and datasets with it

    if (counts == counts[0]).all():
        found = {}
        for metric in METRICS:
            computed = metric_class(metric)().compute(predictions=probabilities, references=labels)
            found[metric] = float(computed[metric])
        return Measurement(
            expert=name, accuracy=found["accuracy"], macro_f1=found["macro_f1"], log_loss=found["log_loss"]
        )
    best = probabilities.argmax(1)
    likelihood = np.take_along_axis(probabilities.clip(1e-12, 1 - 1e-12), labels[:, None], axis=1)[:, 0]
    return Measurement(
        expert=name,
        accuracy=float(accuracy_score(labels, best, sample_weight=counts)),
        macro_f1=float(f1_score(labels, best, average="macro", zero_division=0, sample_weight=counts)),
        log_loss=float(np.average(-np.log(likelihood), weights=counts)),
    )


def _log_likelihood(probabilities: np.ndarray, targets: np.ndarray, multi_label: bool) -> float:
    """Log likelihood of the labels of held-out texts; with several labels per text, the mean over the labels."""
    logs = np.log(probabilities.clip(1e-12)) * targets
    if multi_label:
        return float((logs + np.log((1 - probabilities).clip(1e-12)) * (1 - targets)).sum() / targets.shape[1])
    return float(logs.sum())


def label_thresholds(probabilities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Thresholds ``(C,)`` with the best F1 on held-out examples ``(n, C)``; rare labels get a common one."""
    if not len(targets):
        return np.full(targets.shape[1], 0.5)
    common = _best_threshold(probabilities.ravel(), targets.ravel())
    counts = np.minimum(targets.sum(0), (1 - targets).sum(0))
    thresholds = []
    for of_label, has_label, count in zip(probabilities.T, targets.T, counts, strict=True):
        is_frequent = count >= MIN_EXAMPLES_FOR_THRESHOLD
        thresholds.append(_best_threshold(of_label, has_label) if is_frequent else common)
    return np.array(thresholds)


def _best_threshold(probabilities: np.ndarray, targets: np.ndarray) -> float:
    """Midpoint between the last accepted and the first rejected score, at the best F1."""
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    hits = np.cumsum(targets[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + max(hits[-1], 1))
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # equal probabilities are accepted or rejected together
    last = int(f1.argmax())
    return float((ranked[last] + (ranked[last + 1] if last + 1 < len(ranked) else 0)) / 2)
