"""full, few_shot and curve: a classifier on frozen features, with all training examples or a few of each class."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from ..neighbors.experts.baselines import LARGEST_CLASS
from ..neighbors.experts.fit_experts import fit_experts
from ..neighbors.experts.fitted_experts import ReadyExperts, ask_experts
from ..neighbors.store.datastore import KNNDatastore
from .evaluation_settings import EvaluationSettings
from .experiment import Evaluation, Experiment, Measure, Measurement, Plan, once_per_seed
from .labeled_features import LabeledFeatures, held_out_settings, labeled_features, sample_per_class
from .load_system import EncoderSystem, Features, System, TfidfSystem
from .task import ClassificationTask

logger = logging.getLogger(__name__)

HELD_OUT_SHARE = 0.1
FEWEST_TO_HOLD_OUT = 500  # below, a tenth tells too little to be worth the examples that it takes from training

FITTED = "fitted mixture"

Probe = Callable[[LabeledFeatures, int], np.ndarray]  # the labels (M,) of the test features, by a seed


def logistic_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels by logistic regression, ``(M,)``; sparse features get a linear support vector machine."""
    rows = rows_to_choose_by(features, seed)
    return fit_linear(features.train, features.train_labels, *rows, seed).predict(features.test)


def rows_to_choose_by(features: LabeledFeatures, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training rows to keep, and a tenth of each class that is held out; of few examples none is."""
    if len(features.train_labels) < FEWEST_TO_HOLD_OUT:
        return np.arange(len(features.train_labels)), np.arange(0)
    return features.held_out(HELD_OUT_SHARE, seed)


def fit_linear(features: Features, labels: np.ndarray, kept: np.ndarray, held_out: np.ndarray, seed: int) -> Any:
    """A linear classifier whose C is the most accurate on the held-out rows; then it is fitted on all."""
    if issparse(features):
        # liblinear goes through the examples in a random order
        classifier, strengths = LinearSVC(random_state=seed), (0.1, 1.0, 10.0)
    else:
        classifier, strengths = LogisticRegression(max_iter=1000), (1.0, 10.0, 100.0)
    if len(held_out) == 0:
        return classifier.set_params(C=strengths[1]).fit(features, labels)
    search = GridSearchCV(classifier, {"C": strengths}, cv=[(kept, held_out)])  # of equal ones the smallest C
    search.fit(features, labels)
    strength, accuracy = search.best_params_["C"], search.best_score_
    logger.info(f"C = {strength:g}, with an accuracy of {accuracy:.3f} on {len(held_out)} held-out examples.")
    return search.best_estimator_


def fitted_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels by what ``KNNClassifierPipeline.fit`` makes of the training examples alone, ``(M,)``."""
    inputs = (features.train_inputs, features.test_inputs)
    texts, asked = ([given if isinstance(given, str) else " ".join(given) for given in part] for part in inputs)
    names = [str(number) for number in range(int(features.train_labels.max()) + 1)]
    snapshot = KNNDatastore(features.train, features.train_labels, names, texts).snapshot
    ready = ReadyExperts.of(snapshot, fit_experts(snapshot, show_progress=False))
    return ask_experts(ready, features.test, asked, None).probabilities.argmax(1)


def largest_class_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Always the largest class of the test texts, ``(M,)``."""
    return np.full_like(features.test_labels, np.bincount(features.test_labels).argmax())


PROBES: Mapping[str, Probe] = {"logistic": logistic_predictions}
# What is measured beside the probe on a system's features, as a row of its own.
BESIDE_PROBES: Mapping[str, Probe] = {FITTED: fitted_predictions, LARGEST_CLASS: largest_class_predictions}


def beside_probes(protocol: str, system: System, planned: list[Measurement]) -> list[Measurement]:
    """The same measurements by what stands beside the probe: of an encoder, the fitted mixture."""
    beside = {EncoderSystem: FITTED, TfidfSystem: LARGEST_CLASS}.get(type(system))
    probes = [one for one in planned if beside and "probe" in one.settings]
    probes = probes[:1] if protocol == "full" else probes  # nothing is random in it but the examples
    return [one._replace(settings=one.settings | {"probe": beside}) for one in probes]


def probe_protocols(probes: Mapping[str, Probe] = PROBES) -> dict[str, Experiment]:
    """``full``, ``few_shot`` and ``curve`` by their names, with the probes that settings may name."""
    measure = partial(_measure, {**probes, **BESIDE_PROBES})
    described = {
        "full": ("a probe on frozen features, the whole training set", _plan),
        "few_shot": ("the same with a few examples per class", _plan_few_shot),
        "curve": ("few_shot over the number of examples", _plan_curve),
    }
    return {
        name: Experiment(what, (ClassificationTask,), partial(plan, measure))
        for name, (what, plan) in described.items()
    }


def _measure(
    probes: Mapping[str, Probe], evaluation: Evaluation, settings: Mapping[str, Any], seed: int
) -> dict[str, float]:
    features = evaluation.once(labeled_features)
    if "shots" in settings:
        features = features.draw(settings["shots"], seed, evaluation.task.label_names)
    return features.metrics(probes[settings["probe"]](features, seed))


def _plan(measure: Measure, task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    chosen = {"probe": settings.probe, "max_length": settings.max_length} | held_out_settings(task)
    return once_per_seed("full", chosen, settings, measure)


def _plan_few_shot(measure: Measure, task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    shots = settings.shots_of(task.name)
    try:
        sample_per_class(task.train_labels, shots, settings.seed, task.label_names)
    except ValueError as error:  # of one rare class; the other protocols take it
        return [], [f"few_shot does not run on {task.name}: {error}"]
    return _at_shots(measure, shots, task, settings), []


def _plan_curve(measure: Measure, task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    smallest = int(np.unique(task.train_labels, return_counts=True)[1].min())
    beyond = [str(shots) for shots in settings.curve_shots if shots > smallest]
    line = f"curve leaves {', '.join(beyond)} examples per class out on {task.name}: its smallest class has {smallest}."
    possible = [shots for shots in settings.curve_shots if shots <= smallest]
    return [one for shots in possible for one in _at_shots(measure, shots, task, settings)], [line] if beyond else []


def _at_shots(
    measure: Measure, shots: int, task: ClassificationTask, settings: EvaluationSettings
) -> list[Measurement]:
    chosen = {"shots": shots, "probe": settings.few_shot_probe, "max_length": settings.max_length}
    if shots * len(np.unique(task.train_labels)) >= FEWEST_TO_HOLD_OUT:
        chosen |= held_out_settings(task)
    return [Measurement("few_shot", chosen, seed, measure) for seed in settings.seeds_of(settings.repeats)]
