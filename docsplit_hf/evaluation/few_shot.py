"""few_shot and curve: a probe on frozen features, with the same number of training examples from each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..tasks.task import ClassificationTask
from .experiment import Evaluation, Experiment, Measurement, Plan
from .labeled_features import LabeledFeatures, held_out_settings, labeled_features
from .probe import FEWEST_TO_HOLD_OUT, probe_metrics
from .settings import EvaluationSettings


def sample_per_class(labels: np.ndarray, shots: int, seed: int, label_names: Sequence[str]) -> np.ndarray:
    """Rows of as many examples of every class, int64 ``(shots x classes,)``, ascending (DocSplit, appendix A.1).

    The examples of fewer shots are among those of more shots of the same seed, so that a curve over the number of shots
    does not jump for another draw. The paper does not say what becomes of a class with fewer: here it is an error.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < shots:
        short = [
            f"{label_names[number]!r} has {count}"
            for number, count in zip(classes, counts, strict=True)
            if count < shots
        ]
        more = f" (and {len(short) - 5} more classes are too small)" if len(short) > 5 else ""
        raise ValueError(
            f"{shots} examples of each class are to be drawn, but in the training set {', '.join(short[:5])}{more}: "
            f"lower the number of shots to {counts.min()}, or give more examples."
        )
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.sort(np.concatenate([order[labels[order] == label][:shots] for label in classes]))


def draw_examples(features: LabeledFeatures, shots: int, seed: int, label_names: Sequence[str]) -> LabeledFeatures:
    """The features with as many training examples of every class, as ``sample_per_class`` draws them."""
    rows = sample_per_class(features.train_labels, shots, seed, label_names)
    return features._replace(
        train=features.train[rows],
        train_labels=features.train_labels[rows],
        train_inputs=[features.train_inputs[row] for row in rows],
    )


def _plan_few_shot(task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    shots = settings.shots_of(task.name)
    try:
        sample_per_class(task.train_labels, shots, settings.seed, task.label_names)
    except ValueError as error:  # of one rare class; the other protocols take it
        return [], [f"few_shot does not run on {task.name}: {error}"]
    return _at_shots(shots, task, settings), []


def _plan_curve(task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    smallest = int(np.unique(task.train_labels, return_counts=True)[1].min())
    beyond = [str(shots) for shots in settings.curve_shots if shots > smallest]
    line = f"curve leaves {', '.join(beyond)} examples per class out on {task.name}: its smallest class has {smallest}."
    possible = [shots for shots in settings.curve_shots if shots <= smallest]
    return [one for shots in possible for one in _at_shots(shots, task, settings)], [line] if beyond else []


def _at_shots(shots: int, task: ClassificationTask, settings: EvaluationSettings) -> list[Measurement]:
    chosen = {"shots": shots, "probe": settings.few_shot_probe, "max_length": settings.max_length}
    if shots * len(np.unique(task.train_labels)) >= FEWEST_TO_HOLD_OUT:
        chosen |= held_out_settings(task)
    return [Measurement("few_shot", chosen, seed) for seed in settings.seeds_of(settings.repeats)]


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    features = evaluation.once(labeled_features)
    examples = draw_examples(features, settings["shots"], seed, evaluation.task.label_names)
    return probe_metrics(settings["probe"], examples, seed)


FEW_SHOT = Experiment("the same with a few examples per class", (ClassificationTask,), _plan_few_shot, _measure)
CURVE = Experiment("few_shot over the number of examples", (ClassificationTask,), _plan_curve, _measure)
