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

from .evaluation_settings import EvaluationSettings
from .experiment import Evaluation, Experiment, Measure, Measurement, Plan, once_per_seed
from .labeled_features import LabeledFeatures, held_out_settings, labeled_features, sample_per_class
from .load_system import Features
from .task import ClassificationTask

logger = logging.getLogger(__name__)

HELD_OUT_SHARE = 0.1
FEWEST_TO_HOLD_OUT = 500  # below, a tenth tells too little to be worth the examples that it takes from training

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


PROBES: Mapping[str, Probe] = {"logistic": logistic_predictions}


def probe_protocols(probes: Mapping[str, Probe] = PROBES) -> dict[str, Experiment]:
    """``full``, ``few_shot`` and ``curve`` by their names, with the probes that settings may name."""
    measure = partial(_measure, probes)
    tasks = (ClassificationTask,)
    return {
        "full": Experiment("a probe on frozen features, the whole training set", tasks, partial(_plan, measure)),
        "few_shot": Experiment("the same with a few examples per class", tasks, partial(_plan_few_shot, measure)),
        "curve": Experiment("few_shot over the number of examples", tasks, partial(_plan_curve, measure)),
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
