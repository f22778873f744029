"""Evaluation protocols: probes on frozen features, with all or few examples, and half-document retrieval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from docsplit_hf.arrays.keys import as_matrix, check_finite
from docsplit_hf.evaluation.comparison import retrieval_metrics
from docsplit_hf.evaluation.probes import (
    FEWEST_TO_HOLD_OUT,
    LabeledFeatures,
    ensemble_predictions,
    largest_class_predictions,
    logistic_predictions,
    sample_per_class,
)
from docsplit_hf.evaluation.systems import Features, System, TfidfSystem
from docsplit_hf.fitting.ensemble.report import ENSEMBLE, LARGEST_CLASS
from docsplit_hf.pretraining.half_retrieval import half_texts

from .experiment import (
    Evaluation,
    EvaluationSettings,
    Experiment,
    Measure,
    Plan,
    PlannedMeasurement,
    once_per_seed,
    sentence_settings,
)
from .systems import EncoderSystem
from .tasks import ClassificationTask, EvaluationTask


def labeled_features(evaluation: Evaluation) -> LabeledFeatures:
    """The features of a system on a ``ClassificationTask``."""
    task = evaluation.task
    system = evaluation.system
    if task.train_pairs is None or task.test_pairs is None:
        train, test = system.features(task.train_texts, task.test_texts)
    else:
        both_of_train = [*task.train_texts, *task.train_pairs]  # one list, as the system is fitted on it
        both, test_first, test_second = system.features(both_of_train, task.test_texts, task.test_pairs)
        count = len(task.train_texts)
        train = combine_pairs(both[:count], both[count:])
        test = combine_pairs(test_first, test_second)
    test_inputs = task.test_texts
    if task.test_pairs is not None:
        test_inputs = list(zip(task.test_texts, task.test_pairs, strict=True))
    return LabeledFeatures(
        train=check_features(train, "the training features", task.train_labels),
        train_labels=task.train_labels,
        test=check_features(test, "the test features", task.test_labels),
        test_labels=task.test_labels,
        train_inputs=task.train_inputs,
        test_inputs=test_inputs,
    )


def combine_pairs(first: Features, second: Features) -> Features:
    """Combine vectors u and v into (u, v, abs(u - v), u * v), ``(N, 4 D)``, as in InferSent (Conneau et al. 2017)."""
    if sparse.issparse(first):
        return sparse.hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()
    return np.hstack([first, second, np.abs(first - second), first * second])


def check_features(features: Features, what: str, labels: np.ndarray | None = None) -> Features:
    """Convert dense features to float32, sparse ones to CSR; refuse NaN, infinity, no rows, and missing labels."""
    if sparse.issparse(features):
        features = features.tocsr()
        wrong = np.flatnonzero(~np.isfinite(features.data))
        if len(wrong):
            row = int(np.searchsorted(features.indptr, wrong[0], side="right")) - 1
            raise ValueError(f"{what}: row {row} holds NaN or infinity. Check the system that they come from.")
    else:
        features = as_matrix(features, what).astype(np.float32, copy=False)
        if len(features):
            check_finite(features, what)
    if features.shape[0] == 0:
        raise ValueError(f"{what}: there are none. Is the split empty?")
    if labels is not None and len(labels) != features.shape[0]:
        raise ValueError(f"{what}: {features.shape[0]} rows, but {len(labels)} labels. Give one label for each row.")
    return features


def held_out_settings(task: ClassificationTask) -> dict[str, str]:
    """The settings of a held-out split; empty if no text is repeated, so that older records stay valid."""
    has_repeated = len(set(task.train_inputs)) < len(task.train_inputs)
    return {"equal_texts": "together"} if has_repeated else {}


Probe = Callable[[LabeledFeatures, int], np.ndarray]  # predicts the labels (M,) of the test features, given a seed


PROBES: Mapping[str, Probe] = {"logistic": logistic_predictions}
# Additional probes on a system's features, each with a separate row in the tables.
BESIDE_PROBES: Mapping[str, Probe] = {ENSEMBLE: ensemble_predictions, LARGEST_CLASS: largest_class_predictions}


def beside_probes(protocol: str, system: System, planned: list[PlannedMeasurement]) -> list[PlannedMeasurement]:
    """Plan the same measurements with an additional probe: the ensemble for encoders, the largest class for TF-IDF."""
    additional = {EncoderSystem: ENSEMBLE, TfidfSystem: LARGEST_CLASS}.get(type(system))
    if additional is None:
        return []
    with_probe = [measurement for measurement in planned if "probe" in measurement.settings]
    if protocol == "full":
        with_probe = with_probe[:1]  # other seeds give the same result, since only the choice of examples is random
    return [measurement._replace(settings=measurement.settings | {"probe": additional}) for measurement in with_probe]


def probe_protocols(probes: Mapping[str, Probe] = PROBES) -> dict[str, Experiment]:
    """Make the protocols ``full``, ``few_shot`` and ``curve``, with the probes that settings may name."""
    measure = partial(_measure, {**probes, **BESIDE_PROBES})
    tasks = (ClassificationTask,)
    return {
        "full": Experiment("a probe on frozen features, the whole training set", tasks, partial(_plan, measure)),
        "few_shot": Experiment("the same with a few examples per class", tasks, partial(_plan_few_shot, measure)),
        "curve": Experiment("few_shot over the number of examples", tasks, partial(_plan_curve, measure)),
    }


def _measure(probes: Mapping[str, Probe], evaluation: Evaluation, settings: Mapping, seed: int) -> dict[str, float]:
    """Measure the probe that settings name."""
    features = evaluation.once(labeled_features)
    if "shots" in settings:
        features = features.draw(settings["shots"], seed, evaluation.task.label_names)
    probe = probes[settings["probe"]]
    return features.metrics(probe(features, seed))


def _plan(measure: Measure, task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    """Plan the protocol ``full``."""
    chosen = {"probe": settings.probe, "max_length": settings.max_length} | held_out_settings(task)
    return once_per_seed("full", chosen, settings, measure)


def _plan_few_shot(measure: Measure, task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    """Plan the protocol ``few_shot``."""
    shots = settings.shots_of(task.name)
    try:
        sample_per_class(task.train_labels, shots, settings.seed, task.label_names)
    except ValueError as error:  # a class is too small; the other protocols still run
        return [], [f"few_shot does not run on {task.name}: {error}"]
    return _at_shots(measure, shots, task, settings), []


def _plan_curve(measure: Measure, task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    """Plan the protocol ``curve``, which adds records to ``few_shot``."""
    _, counts = np.unique(task.train_labels, return_counts=True)
    smallest = int(counts.min())
    measurements = []
    too_many = []
    for shots in settings.curve_shots:
        if shots <= smallest:
            measurements += _at_shots(measure, shots, task, settings)
        else:
            too_many.append(str(shots))
    if not too_many:
        return measurements, []
    left_out = ", ".join(too_many)
    line = f"curve leaves {left_out} examples per class out on {task.name}: its smallest class has {smallest}."
    return measurements, [line]


def _at_shots(
    measure: Measure, shots: int, task: ClassificationTask, settings: EvaluationSettings
) -> list[PlannedMeasurement]:
    """Plan the repeats with a number of training examples per class."""
    chosen = {"shots": shots, "probe": settings.few_shot_probe, "max_length": settings.max_length}
    if shots * len(np.unique(task.train_labels)) >= FEWEST_TO_HOLD_OUT:
        chosen |= held_out_settings(task)
    return [PlannedMeasurement("few_shot", chosen, seed, measure) for seed in settings.seeds_of(settings.repeats)]


def _plan_halves(task: EvaluationTask, settings: EvaluationSettings) -> Plan:
    """Plan the protocol ``half_documents``."""
    return once_per_seed("half_documents", sentence_settings(task, settings), settings, _measure_halves)


def _measure_halves(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Measure half-document retrieval."""
    task = evaluation.task
    first, second = half_texts(task.texts, seed, task.language)
    [both] = evaluation.system.features([*first, *second])  # one list, as the system is fitted on it
    both = check_features(both, "the halves")
    return retrieval_metrics(both[: len(first)], both[len(first) :])


HALF_DOCUMENTS = Experiment("given one half of a text, find the other", None, _plan_halves)
