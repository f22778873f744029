"""Metrics of the weighted ensemble on held-out texts: thresholds, guarantees and the values of the report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import accuracy_score, f1_score

from ...arrays.snapshot import Snapshot
from ...metrics.of_arrays import accuracy, log_loss, macro_f1
from ..experts.corpus import id_numbers
from ..experts.expert import TrainingData
from ..experts.log_linear_pool import is_class_balanced, most_probable_weights, pool, spread_of_scores
from ..experts.registry import EXPERTS
from ..experts.word_experts import WordRegression, probabilities_of_log_odds
from ..label_tree import Level, label_tree
from ..rejection import DEFAULT_LOST_FRACTION, HIGHEST_NOVELTY, accuracy_interval, importance_weights
from .fitted_ensemble import Fit
from .guarantees import Guarantees, HeldOutAnswers, LabelOutcome, SurestError
from .held_out_scores import HeldOutScores
from .preparing import Prepared
from .problem import Problem
from .report import (
    ENSEMBLE,
    HELD_OUT_TEXTS,
    LABEL_ERROR,
    LARGEST_CLASS,
    SAMPLE_PROPORTIONS,
    UNKNOWN_PROPORTIONS,
    WORD_COUNTS,
    FitReport,
    LevelMeasurement,
    Measurement,
)
from .weighing import Weighing, held_out_answers, held_out_probabilities

LEAST_GAIN = 0.1  # in the fraction of answered texts, for the most confident error to be reported
REPORTED_ERRORS = (0.01, 0.05, 0.1)  # error rates for which the report gives the fraction of answered texts
LEAST_DESCRIBED_SHARE = 0.2  # of the weights: of an expert whose labels the report describes
MIN_EXAMPLES_FOR_THRESHOLD = 5  # with a label, and without it; labels with fewer get a common threshold


def measure_ensemble(problem: Problem, prepared: Prepared, weighing: Weighing) -> Fit:
    """Measure the ensemble on the held-out texts, and put together the fit."""
    ensemble = weighing.ensemble
    scores = weighing.scores
    multi_label = ensemble.multi_label
    probabilities = held_out_probabilities(scores, weighing.weights, multi_label, scores.shift)
    held_out = held_out_answers(scores, probabilities, weighing.out_of_scope > 0)
    counted = weighing._replace(scores=scores.counted())  # one text of each group of versions
    guarantees = _guarantees(weighing, held_out.rows(scores.is_counted), prepared.paths)
    return Fit(
        ensemble=ensemble,
        report=_report(problem, prepared, counted, probabilities[scores.is_counted], guarantees),
        held_out=held_out,
        proportion_draws=guarantees.proportion_draws,
        log_likelihood=weighing.log_likelihood(),
        thresholds=label_thresholds(probabilities, scores.targets).tolist() if multi_label else None,
    )


def _guarantees(weighing: Weighing, held_out: HeldOutAnswers, paths: list[list[str]]) -> Guarantees:
    """Guarantees by the held-out answers, with a default limit of novelty if some documents are out of scope."""
    guarantees = Guarantees(
        held_out=held_out,
        proportion_draws=weighing.proportions.draws.astype(np.float32),
        multi_label=weighing.ensemble.multi_label,
        default_lost=0.0,
        tree=label_tree(paths),
    )
    # With too few held-out texts the limit cannot be guaranteed.
    if weighing.out_of_scope > 0 and guarantees.novelty_limit(DEFAULT_LOST_FRACTION) < HIGHEST_NOVELTY:
        return guarantees._replace(default_lost=DEFAULT_LOST_FRACTION)
    return guarantees


def _report(
    problem: Problem, prepared: Prepared, weighing: Weighing, probabilities: np.ndarray, guarantees: Guarantees
) -> FitReport:
    data = prepared.data
    versions = prepared.versions
    ensemble = weighing.ensemble
    scores = weighing.scores
    draws = weighing.proportions.draws
    importance = importance_weights(scores.targets > 0, draws)
    folds = "folds of the examples" if len(scores.targets) else "nothing to hold out"
    interval: list[float] = []
    answered: dict[str, float] = {}
    needed: dict[str, int] = {}
    by_label: list[LabelOutcome] = []
    if not ensemble.multi_label:
        found = accuracy_interval(guarantees.held_out.right, importance)
        interval = [found.low, found.high]
        answered = {str(error): guarantees.answered_fraction(error) for error in REPORTED_ERRORS}
        counts = {error: guarantees.texts_needed(float(error)) for error, share in answered.items() if not share}
        needed = {error: count for error, count in counts.items() if count is not None}
        if not guarantees.tree and len(scores.targets):
            by_label = guarantees.outcomes_by_label(LABEL_ERROR, ensemble.labels)
    return FitReport(
        examples=len(data.rows),
        documents=len(data.corpus.ids) - len(data.rows),
        left_out=problem.left_out,
        lacking=dict(problem.lacking),
        labels=ensemble.labels,
        measured_on=folds if problem.held_out is None else HELD_OUT_TEXTS,
        texts=len(scores.targets),
        single=[name for name, total in zip(ensemble.labels, data.targets.sum(0), strict=True) if total == 1],
        shares=dict(zip(ensemble.experts, weighing.weights.relative.tolist(), strict=True)),
        proportions=dict(zip(ensemble.labels, ensemble.learned.proportions.tolist(), strict=True)),
        class_proportions=_source_of_proportions(problem),
        measured=_measurements(data, weighing, probabilities, importance.mean(0)),
        answered=answered,
        needed=needed,
        by_label=by_label,
        least_error=guarantees.least_error(),
        surest_error=surest_error(guarantees, ensemble.labels, problem.snapshot, REPORTED_ERRORS),
        measured_for=_measured_for(problem, data, has_draws=len(draws) > 0),
        accuracy_interval=interval,
        out_of_scope=weighing.out_of_scope,
        novelty=guarantees.default_lost,
        lost=guarantees.lost_fraction() if weighing.out_of_scope > 0 else 0.0,
        versions=versions.examples,
        version_groups=versions.groups,
        contradictory=versions.contradictory,
        agreeing=versions.agreeing,
        version_fraction=prepared.version_fraction,
        paths=prepared.paths if guarantees.tree else [],
        levels=_levels(guarantees, ensemble.labels, importance.mean(0)),
        styles=_styles(data, weighing),
    )


def _styles(data: TrainingData, weighing: Weighing) -> dict[str, list[str]]:
    """Describe how the examples of each label are written, by experts that have weight enough."""
    ensemble = weighing.ensemble
    styles: dict[str, list[str]] = {}
    for name, share in zip(ensemble.experts, weighing.weights.relative, strict=True):
        if not EXPERTS[name].reads_style or share < LEAST_DESCRIBED_SHARE:
            continue
        for column, label in enumerate(ensemble.labels):
            of_label = data.corpus.style[data.rows[data.targets[:, column] > 0]].mean(0)
            styles[label] = EXPERTS[name].described(ensemble.learned.by_expert[name], of_label, column, None)
    return styles


def _levels(guarantees: Guarantees, labels: list[str], importance: np.ndarray) -> list[LevelMeasurement]:
    """Metrics at each level of the tree of labels, from the top; none of flat labels, or without held-out texts."""
    held_out = guarantees.held_out
    if not guarantees.tree or not len(held_out.ids):
        return []
    answered = {str(error): guarantees.answered_by_level(error) for error in REPORTED_ERRORS}
    of_labels = Level(tuple(labels), np.arange(len(labels)))
    return [
        measure_level(
            level,
            held_out.probabilities,
            held_out.labels,
            importance,
            answered={error: shares[number] for error, shares in answered.items()},
        )
        for number, level in enumerate((*guarantees.tree, of_labels))
    ]


def _source_of_proportions(problem: Problem) -> str:
    return problem.class_proportions if isinstance(problem.class_proportions, str) else "given"


def _measured_for(problem: Problem, data: TrainingData, has_draws: bool) -> str:
    """Name the label proportions for which everything is measured."""
    is_sample = problem.held_out is not None or not is_class_balanced(data.targets)
    if data.multi_label or (is_sample and not has_draws):
        return SAMPLE_PROPORTIONS
    if not has_draws:
        return UNKNOWN_PROPORTIONS
    return _source_of_proportions(problem)


def _measurements(
    data: TrainingData, weighing: Weighing, probabilities: np.ndarray, importance: np.ndarray
) -> list[Measurement]:
    """Metrics of each expert alone, of the ensemble, and of two baselines, on m held-out texts.

    Word counts are measured only if the expert "word_regression" is fitted.

    ``importance`` ``(m,)``: the importance weights of the held-out texts, averaged over the draws.
    """
    scores = weighing.scores
    if not len(scores.targets):
        return []
    multi_label = data.multi_label
    labels = scores.targets.astype(int) if multi_label else scores.targets.argmax(1)
    experts = weighing.ensemble.experts
    predictions = _predictions_of_single_experts(scores, experts, multi_label)
    predictions[ENSEMBLE] = probabilities
    if WordRegression.name in experts:
        log_odds = scores.scores[experts.index(WordRegression.name)]
        predictions[WORD_COUNTS] = probabilities_of_log_odds(log_odds, multi_label)
    has_draws = len(weighing.proportions.draws) > 0
    class_proportions = weighing.proportions.likeliest[None] if has_draws else data.targets
    predictions[LARGEST_CLASS] = largest_class(class_proportions, len(scores.targets), multi_label)
    return [measure_predictions(name, predicted, labels, importance) for name, predicted in predictions.items()]


def _predictions_of_single_experts(
    scores: HeldOutScores, experts: list[str], multi_label: bool
) -> dict[str, np.ndarray]:
    """Probabilities ``(m, C)`` by each expert alone, with the sharpness that fits the held-out texts best."""
    spreads = spread_of_scores(scores.scores, multi_label)
    predictions = {}
    for i, name in enumerate(experts):
        alone = scores.scores[[i]] / spreads[i]
        weights = most_probable_weights(alone, scores.targets, np.ones(1), multi_label)
        predictions[name] = pool(alone, weights, multi_label)
    return predictions


def label_thresholds(probabilities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Choose thresholds ``(C,)`` with the best F1 on m held-out texts, ``(m, C)``; rare labels get a common one."""
    if not len(targets):
        return np.full(targets.shape[1], 0.5)
    common = _best_threshold(probabilities.ravel(), targets.ravel())
    counts = np.minimum(targets.sum(0), (1 - targets).sum(0))
    thresholds = np.full(targets.shape[1], common)
    for column in np.flatnonzero(counts >= MIN_EXAMPLES_FOR_THRESHOLD):
        thresholds[column] = _best_threshold(probabilities[:, column], targets[:, column])
    return thresholds


def _best_threshold(probabilities: np.ndarray, targets: np.ndarray) -> float:
    """Find the threshold with the best F1: the midpoint between the last accepted and the first rejected score."""
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    hits = np.cumsum(targets[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + max(hits[-1], 1))
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # equal probabilities are accepted or rejected together
    last = int(f1.argmax())
    return float((ranked[last] + (ranked[last + 1] if last + 1 < len(ranked) else 0)) / 2)


def surest_error(
    guarantees: Guarantees, labels: Sequence[str], snapshot: Snapshot, errors: Sequence[float]
) -> SurestError | None:
    """Find the most confident wrong answer, and the error rate at which its removal gains most answers.

    None if the gain is below ``LEAST_GAIN``, or texts may have several labels.
    """
    held_out = guarantees.held_out
    if guarantees.multi_label or held_out.right.all():
        return None
    wrong = np.flatnonzero(~held_out.right)
    surest = int(wrong[guarantees.held_out_confidence()[wrong].argmax()])
    without = guarantees._replace(held_out=held_out.rows(np.arange(len(held_out.ids)) != surest))
    if not len(without.held_out.ids):
        return None
    gains = [without.answered_fraction(error) - guarantees.answered_fraction(error) for error in errors]
    error = errors[int(np.argmax(gains))]
    if max(gains) < LEAST_GAIN:
        return None
    number = int(held_out.ids[surest])  # 0 of a text that is no example
    rows = np.flatnonzero(id_numbers(snapshot.rows, snapshot.keys) == number) if number else []
    return SurestError(
        id=None if not len(rows) else snapshot.rows["id"][int(rows[0])].as_py(),
        labeled=labels[int(held_out.labels[surest].argmax())],
        answered=labels[int(held_out.probabilities[surest].argmax())],
        score=float(held_out.probabilities[surest].max()),
        error=error,
        share=guarantees.answered_fraction(error),
        share_without=without.answered_fraction(error),
    )


def measure_level(
    level: Level, probabilities: np.ndarray, labels: np.ndarray, importance: np.ndarray, answered: dict[str, float]
) -> LevelMeasurement:
    """Compute the metrics of the nodes above the most probable labels.

    Args:
        level: The level.
        probabilities: The probabilities of the labels, ``(m, C)``.
        labels: The right labels, bool ``(m, C)``.
        importance: The weights of the texts, ``(m,)``.
        answered: The fraction of texts that get an answer at this level, by the error rate.
    """
    predicted = level.node_of_label[probabilities.argmax(1)]
    right = level.node_of_label[labels.argmax(1)]
    return LevelMeasurement(
        nodes=len(level.names),
        accuracy=float(accuracy_score(right, predicted, sample_weight=importance)),
        macro_f1=float(f1_score(right, predicted, average="macro", zero_division=0, sample_weight=importance)),
        answered=answered,
    )


def measure_predictions(
    name: str, probabilities: np.ndarray, labels: np.ndarray, importance: np.ndarray
) -> Measurement:
    """Compute the metrics of probabilities ``(m, C)``; ``importance`` ``(m,)`` are the weights of the texts."""
    if (importance == importance[0]).all():
        return Measurement(
            expert=name,
            accuracy=accuracy(probabilities, labels),
            macro_f1=macro_f1(probabilities, labels),
            log_loss=log_loss(probabilities, labels),
        )
    best = probabilities.argmax(1)
    likelihood = np.take_along_axis(probabilities.clip(1e-12, 1 - 1e-12), labels[:, None], axis=1)[:, 0]
    return Measurement(
        expert=name,
        accuracy=float(accuracy_score(labels, best, sample_weight=importance)),
        macro_f1=float(f1_score(labels, best, average="macro", zero_division=0, sample_weight=importance)),
        log_loss=float(np.average(-np.log(likelihood), weights=importance)),
    )


def largest_class(targets: np.ndarray, count: int, multi_label: bool) -> np.ndarray:
    """Constant predictions ``(count, C)``: label proportions, or the most frequent set of labels if multi-label."""
    proportions = targets.mean(0)
    if multi_label:
        sets, counts = np.unique(targets, axis=0, return_counts=True)
        is_in_set = sets[counts.argmax()] > 0
        proportions = np.where(is_in_set, np.maximum(proportions, 0.5), np.minimum(proportions, 0.49))
    return np.tile(proportions, (count, 1))
