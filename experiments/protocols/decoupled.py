"""The experiments of Liang et al. 2023 on a fine-tuned encoder: its nine rows, the retrieval vectors, k and T."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from docsplit_hf.evaluation.systems import System
from docsplit_hf.finetuning.metrics_of_parts import prediction_metrics
from docsplit_hf.fitting.interpolation import add_one_smoothing, interpolate, knn_probabilities

from ..evaluation.experiment import Evaluation, Experiment, Plan, PlannedMeasurement
from ..evaluation.protocols import held_out_settings
from ..evaluation.tasks import ClassificationTask
from ..papers_options import CALIBRATED, FIXED, ORACLE, PaperSettings
from ..systems import document_encoder, encoding_options
from ..tasks.known_tasks import task_metric
from ..tasks.paper_tasks import TASKS
from .fine_tuned import OWN_POOLING, VARIANTS, FineTuned, FineTuning, fine_tune

PAPER_K = 64
PAPER_TEMPERATURE = 10.0
WEIGHTS = np.arange(11) / 10  # candidates for lambda; the paper chose among them on the split that it reports
VECTORS = ("cls", "mean", "max")
SWEEP_K = (1, 2, 4, 8, 16, 32, 64, 128)
SWEEP_TEMPERATURES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SWEEP_WEIGHT = 0.5  # lambda of the paper's figure is unknown
PARTS = {"classifier": "classifier_", "knn": "knn_", "mixture": ""}  # prefixes of the metrics


def neighbors_settings(protocol: str, task: str, settings: PaperSettings) -> dict[str, Any]:
    """The settings of a record that tell how k, T and lambda were chosen."""
    if protocol == CALIBRATED:
        return {"neighbors": protocol}
    chosen = {"neighbors": protocol, "k": PAPER_K, "temperature": PAPER_TEMPERATURE}
    if protocol == ORACLE:
        return chosen | {"best": task_metric(task)}
    weight = settings.knn_weight
    if weight is None and task not in TASKS:
        raise ValueError(f"neighbors_protocol 'fixed' needs lambda for {task}, which the paper has not: --knn_weight.")
    return chosen | {"weight": TASKS[task].knn_weight if weight is None else weight}


def mixture_metrics(found: FineTuned, neighbors: Mapping[str, Any]) -> dict[str, float]:
    """Metrics of the classifier, its neighbors and the two mixed, the weight (lambda) of the neighbors, and clusters.

    ``neighbors`` comes from ``neighbors_settings``. ``"calibrated"``: k, T and lambda from held-out examples, with the
    smoothing of ``pipeline("docsplit-knn")``. ``"fixed"``: as given. ``"oracle"``: k and T as given, and the lowest
    lambda with the best metric of the task on the test set itself: the paper's "KNN best".

    Two metrics tell how well the classes form clusters: ``"purity"``, the share of a test text's 64 neighbors that have
    its label, and ``"silhouette"`` of the test texts.
    """
    protocol = neighbors["neighbors"]
    classes = found.classifier.shape[1]
    if protocol == CALIBRATED:
        k = found.calibration.k
        temperature = found.calibration.temperature
        weight = found.calibration.weight
    else:
        k = neighbors["k"]
        temperature = neighbors["temperature"]
        weight = neighbors.get("weight")
    knn = knn_probabilities(found.distances[:, :k], found.neighbor_labels[:, :k], classes, temperature)
    if protocol == CALIBRATED:
        knn = add_one_smoothing(knn, found.examples)
    if protocol == ORACLE:
        predictions = [interpolate(knn, found.classifier, weight).argmax(1) for weight in WEIGHTS]
        scores = [prediction_metrics(labels, found.labels)[neighbors["best"]] for labels in predictions]
        weight = float(WEIGHTS[int(np.argmax(scores))])
    parts = {"classifier": found.classifier, "knn": knn, "mixture": interpolate(knn, found.classifier, weight)}
    metrics = {
        f"{PARTS[part]}{name}": value
        for part, probabilities in parts.items()
        for name, value in prediction_metrics(probabilities.argmax(1), found.labels).items()
    }
    purity = float((found.neighbor_labels[:, :PAPER_K] == found.labels[:, None]).mean())
    return metrics | {"weight": weight, "purity": purity, "silhouette": found.silhouette}


def _plan(task: ClassificationTask, settings: PaperSettings) -> Plan:
    variants = [_fine_tuning(task, settings, variant) for variant in VARIANTS]
    protocols = [neighbors_settings(protocol, task.name, settings) for protocol in settings.neighbors_protocol]
    return _measurements("decoupled", task, settings, variants, protocols), []


def _plan_vectors(task: ClassificationTask, settings: PaperSettings) -> Plan:
    variants = [_fine_tuning(task, settings, "decoupled", pooling) for pooling in VECTORS]
    protocols = [neighbors_settings(protocol, task.name, settings) for protocol in settings.neighbors_protocol]
    return _measurements("retrieval_vectors", task, settings, variants, protocols), []


def _plan_sweep(task: ClassificationTask, settings: PaperSettings) -> Plan:
    by_k = [(k, PAPER_TEMPERATURE) for k in SWEEP_K]
    points = dict.fromkeys([*by_k, *((PAPER_K, temperature) for temperature in SWEEP_TEMPERATURES)])
    neighbors = [
        {"neighbors": FIXED, "k": k, "temperature": temperature, "weight": SWEEP_WEIGHT} for k, temperature in points
    ]
    return _measurements("neighbors_sweep", task, settings, [_fine_tuning(task, settings, "decoupled")], neighbors), []


def _fine_tuning(
    task: ClassificationTask, settings: PaperSettings, variant: str, retrieval_pooling: str = OWN_POOLING
) -> FineTuning:
    """The paper's table 3 for its tasks, the trainer's defaults for others, overridden by ``settings``."""
    arguments = {}
    max_length = settings.max_length
    if task.name in TASKS:
        arguments = TASKS[task.name].training_arguments()
        max_length = min(max_length, TASKS[task.name].max_length)
    if (metric := task_metric(task.name)) != "accuracy":
        arguments["metric_for_best_model"] = metric  # macro F1, the default, is no substitute for Matthews correlation
    arguments |= settings.fine_tuning
    return FineTuning(variant, retrieval_pooling, max_length, tuple(sorted(arguments.items())))


def _measurements(
    protocol: str,
    task: ClassificationTask,
    settings: PaperSettings,
    variants: list[FineTuning],
    neighbors: list[dict[str, Any]],
) -> list[PlannedMeasurement]:
    """All measurements, those of one classifier in succession, so that it is trained once."""
    return [
        PlannedMeasurement(protocol, how.settings() | chosen | held_out_settings(task), seed, _measure)
        for how in variants
        for seed in settings.seeds_of(settings.seeds)
        for chosen in neighbors
    ]


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    pooling = settings["retrieval_pooling"]
    if pooling == document_encoder(evaluation.system).pooling:
        pooling = OWN_POOLING  # it is the same training
    arguments = tuple(sorted(settings["arguments"].items()))
    how = FineTuning(settings["variant"], pooling, settings["max_length"], arguments)
    return mixture_metrics(evaluation.once(fine_tune, how, seed), settings)


def _refuses(system: System) -> str | None:
    encoder = document_encoder(system)
    if encoder is None:
        return "whose weights are here"
    if encoder.prompt or encoder.projection is not None:
        return "without a prompt and without dense layers behind it"
    if encoding_options(system).get("long_documents", "first") != "first":
        return "that reads the beginnings of long documents (--long_documents first)"
    return None


def _experiment(description: str, plan: Any) -> Experiment:
    return Experiment(description, (ClassificationTask,), plan, _refuses)


DECOUPLED = _experiment("the encoder fine-tuned in three ways, each with its neighbors: the paper's nine rows", _plan)
RETRIEVAL_VECTORS = _experiment("the same by what neighbors are looked for with: cls, mean or max", _plan_vectors)
NEIGHBORS_SWEEP = _experiment("the same by the number of neighbors and the temperature", _plan_sweep)
