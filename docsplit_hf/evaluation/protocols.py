"""Evaluation protocols: probes on frozen features, with all or few examples, and half-document retrieval."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from ..arrays.keys import as_matrix, check_finite
from ..classifier.knn_datastore import KNNDatastore
from ..finetuning.evaluation import prediction_metrics
from ..fitting.ensemble.fitting import fit_experts
from ..fitting.ensemble.problem import Problem
from ..fitting.ensemble.report import LARGEST_CLASS
from ..fitting.ensemble.scoring import PreparedExperts, score_texts
from ..fitting.label_tree import FLAT, LabelTree
from ..metrics.registry import rank_metrics, ranks_of_right
from ..pretraining.half_retrieval import ROWS_AT_ONCE, half_retrieval_metrics, half_texts
from ..reading.holding_out import hold_out_of_each_class
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
from .systems import EncoderSystem, Features, System, TfidfSystem
from .tasks import ClassificationTask, EvaluationTask

logger = logging.getLogger(__name__)

LEVEL_METRICS = ("accuracy", "macro_f1")  # of the upper levels, if labels are a tree


class LabeledFeatures(NamedTuple):
    """Features ``(N, D)`` and ``(M, D)``, float32 or sparse, with int64 labels and the texts of the rows."""

    train: Features
    train_labels: np.ndarray
    test: Features
    test_labels: np.ndarray
    train_inputs: Sequence[Hashable]
    test_inputs: Sequence[Hashable] = ()
    tree: LabelTree = FLAT  # of the labels

    def held_out(self, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The training rows to keep, and the held-out rows: a fraction of each class, with equal inputs together."""
        return hold_out_of_each_class(self.train_inputs, self.train_labels, fraction, seed)

    def metrics(self, predictions: np.ndarray) -> dict[str, float]:
        """The metrics of labels predicted for the test rows, ``(M,)``, and of their parents at each upper level."""
        metrics = prediction_metrics(predictions, self.test_labels)
        for number, level in enumerate(self.tree.upper_levels, start=1):
            parents = level.node_of_label[predictions]
            of_parents = prediction_metrics(parents, level.node_of_label[self.test_labels])
            for name in LEVEL_METRICS:
                metrics[f"level_{number}_{name}"] = of_parents[name]
        return metrics

    def draw(self, shots: int, seed: int, label_names: Sequence[str]) -> LabeledFeatures:
        """Keep ``shots`` training examples of every class, drawn by ``sample_per_class``."""
        rows = sample_per_class(self.train_labels, shots, seed, label_names)
        train_inputs = [self.train_inputs[row] for row in rows]
        return self._replace(train=self.train[rows], train_labels=self.train_labels[rows], train_inputs=train_inputs)


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
        tree=task.tree,
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


def sample_per_class(labels: np.ndarray, shots: int, seed: int, label_names: Sequence[str]) -> np.ndarray:
    """Draw ``shots`` examples of every class: their rows, int64, ascending (DocSplit, appendix A.1).

    With the same seed, more shots include the examples of fewer shots, so that curves are smooth.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < shots:
        short = []
        for number, count in zip(classes, counts, strict=True):
            if count < shots:
                short.append(f"{label_names[number]!r} has {count}")
        more = f" (and {len(short) - 5} more classes are too small)" if len(short) > 5 else ""
        raise ValueError(
            f"{shots} examples of each class are to be drawn, but in the training set {', '.join(short[:5])}{more}: "
            f"lower the number of shots to {counts.min()}, or give more examples."
        )
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.sort(np.concatenate([order[labels[order] == label][:shots] for label in classes]))


HELD_OUT_FRACTION = 0.1
FEWEST_TO_HOLD_OUT = 500  # examples, of which a tenth is enough to choose C

FITTED = "fitted mixture"  # the name of the ensemble in records and tables

Probe = Callable[[LabeledFeatures, int], np.ndarray]  # predicts the labels (M,) of the test features, given a seed


def logistic_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Predict labels, ``(M,)``, by logistic regression, or for sparse features by a linear support vector machine."""
    kept, held_out = rows_to_choose_by(features, seed)
    classifier = fit_linear(features.train, features.train_labels, kept, held_out, seed)
    return classifier.predict(features.test)


def rows_to_choose_by(features: LabeledFeatures, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The training rows to keep, and a held-out tenth of each class, or no rows if there are few examples."""
    if len(features.train_labels) < FEWEST_TO_HOLD_OUT:
        return np.arange(len(features.train_labels)), np.arange(0)
    return features.held_out(HELD_OUT_FRACTION, seed)


def fit_linear(features: Features, labels: np.ndarray, kept: np.ndarray, held_out: np.ndarray, seed: int) -> Any:
    """Fit a linear classifier to all rows, with the C of the highest accuracy on the held-out rows."""
    if sparse.issparse(features):
        classifier = LinearSVC(random_state=seed)  # liblinear visits the examples in a random order
        strengths = (0.1, 1.0, 10.0)
    else:
        classifier = LogisticRegression(max_iter=1000)
        strengths = (1.0, 10.0, 100.0)
    if len(held_out) == 0:
        return classifier.set_params(C=strengths[1]).fit(features, labels)
    search = GridSearchCV(classifier, {"C": strengths}, cv=[(kept, held_out)])  # the smallest C if several are best
    search.fit(features, labels)
    logger.info(
        f"C = {search.best_params_['C']:g}, with an accuracy of {search.best_score_:.3f} on {len(held_out)} held-out "
        "examples."
    )
    return search.best_estimator_


def fitted_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Predict labels, ``(M,)``, by the ensemble that ``KNNClassifierPipeline.fit`` fits to the training examples."""
    label_names = [str(number) for number in range(int(features.train_labels.max()) + 1)]
    train_texts = _as_texts(features.train_inputs)
    snapshot = KNNDatastore(features.train, features.train_labels, label_names, train_texts).snapshot
    ready = PreparedExperts.of(snapshot, fit_experts(Problem(snapshot), show_progress=False))
    answers = score_texts(ready, features.test, _as_texts(features.test_inputs), None)
    return answers.probabilities.argmax(1)


def _as_texts(inputs: Sequence[Hashable]) -> list[str]:
    """Join the texts of pairs."""
    return [given if isinstance(given, str) else " ".join(given) for given in inputs]


def largest_class_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Predict the largest class of the test texts for every text, ``(M,)``."""
    return np.full_like(features.test_labels, np.bincount(features.test_labels).argmax())


PROBES: Mapping[str, Probe] = {"logistic": logistic_predictions}
# Additional probes on a system's features, each with a separate row in the tables.
BESIDE_PROBES: Mapping[str, Probe] = {FITTED: fitted_predictions, LARGEST_CLASS: largest_class_predictions}


def beside_probes(protocol: str, system: System, planned: list[PlannedMeasurement]) -> list[PlannedMeasurement]:
    """Plan the same measurements with an additional probe: the ensemble for encoders, the largest class for TF-IDF."""
    additional = {EncoderSystem: FITTED, TfidfSystem: LARGEST_CLASS}.get(type(system))
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


def retrieval_metrics(first: Features, second: Features) -> dict[str, float]:
    """Recall and mean reciprocal rank of row i of the second halves, given row i of the first halves, by cosine."""
    first = check_features(first, "the first halves")
    second = check_features(second, "the second halves")
    if sparse.issparse(first):
        first = normalize(first)
        second = normalize(second)
        ranks = []
        for rows in torch.arange(first.shape[0]).split(ROWS_AT_ONCE):
            similarities = (first[rows.numpy()] @ second.T).toarray()
            ranks.append(ranks_of_right(torch.from_numpy(similarities), rows))
        metrics = rank_metrics(torch.cat(ranks))
    else:
        metrics = half_retrieval_metrics(torch.from_numpy(first), torch.from_numpy(second))
    return {name: metrics[name] for name in ("recall@1", "recall@10", "mrr")}


def _plan_halves(task: EvaluationTask, settings: EvaluationSettings) -> Plan:
    """Plan the protocol ``half_documents``."""
    return once_per_seed("half_documents", sentence_settings(task, settings), settings, _measure_halves)


def _measure_halves(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Measure half-document retrieval."""
    task = evaluation.task
    first, second = half_texts(task.texts, seed, task.language)
    [both] = evaluation.system.features([*first, *second])  # one list, as the system is fitted on it
    return retrieval_metrics(both[: len(first)], both[len(first) :])


HALF_DOCUMENTS = Experiment("given one half of a text, find the other", None, _plan_halves)
