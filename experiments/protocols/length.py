"""length: accuracy by the number of words in a document, and how much of it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from docsplit_hf.classification.evaluation import prediction_metrics
from docsplit_hf.evaluation.experiment import Evaluation, Experiment, Measurement, Plan
from docsplit_hf.evaluation.protocols import (
    LabeledFeatures,
    fit_linear,
    held_out_settings,
    labeled_features,
    logistic_predictions,
    rows_to_choose_by,
    sample_per_class,
)
from docsplit_hf.evaluation.systems import EncoderSystem, System
from docsplit_hf.evaluation.tasks import ClassificationTask, word_counts
from docsplit_hf.models.inference.long_documents import read_pieces

from ..papers_options import NO_SEED, PaperSettings
from ..systems import PassageSystem, document_encoder, encoding_options, rows_of_passages
from .jackknife import ratio_without_each, with_intervals
from .nearest_neighbors import has_passages, knn_predictions

BOUNDS = (250, 500, 1_000, 2_000, 4_000)  # words
BUCKETS = ("< 250", "250-500", "500-1,000", "1,000-2,000", "2,000-4,000", "> 4,000")
CLASSIFIERS = ("probe", "neighbors")


def by_length(words: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of all documents, under ``""``, and of each bucket that has any; ``words``: int64 ``(N,)``."""
    numbers = np.searchsorted(BOUNDS, words, side="right")
    buckets = {f" {name}": np.flatnonzero(numbers == i) for i, name in enumerate(BUCKETS) if (numbers == i).any()}
    return {"": np.arange(len(words))} | buckets


def metrics_by_length(predictions: np.ndarray, labels: np.ndarray, words: np.ndarray) -> dict[str, float]:
    """``"accuracy"`` and ``"macro_f1"`` of all documents, and of a bucket, as ``"accuracy 250-500"``.

    Each accuracy with half the 95 % confidence interval over the documents, ``"accuracy 250-500_interval"``.
    """
    metrics, without_each = {}, {}
    for name, rows in by_length(words).items():
        found = prediction_metrics(predictions[rows], labels[rows])
        metrics[f"macro_f1{name}"] = found["macro_f1"]
        metrics[f"accuracy{name}"] = found["accuracy"]
        correct = (predictions[rows] == labels[rows]).astype(np.float64)
        without_each[f"accuracy{name}"] = ratio_without_each(correct, np.ones(len(rows)))
    accuracies = {name: metrics[name] for name in without_each}
    return metrics | with_intervals(accuracies, without_each)


def reading_by_length(shares: np.ndarray, tokens: np.ndarray, words: np.ndarray) -> dict[str, float]:
    """Of all documents and of each bucket: how many there are, the mean share that is read, and tokens read of one."""
    found = {}
    for name, rows in by_length(words).items():
        found[f"documents{name}"] = len(rows)
        found[f"share_read{name}"] = float(shares[rows].mean())
        found[f"tokens_read{name}"] = float(tokens[rows].mean())
    return found


def passage_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels ``(M,)`` by the passages of documents: of each the passage of which logistic regression is surest decides.

    It learns from the documents' means: what it learns from single passages, most of which say nothing of the label,
    is less.
    """
    rows = rows_to_choose_by(features, seed)
    means = normalize(np.stack([rows.mean(0) for rows in features.train]))
    classifier = fit_linear(means, features.train_labels, *rows, seed)
    counts = np.array([len(rows) for rows in features.test])
    probabilities = classifier.predict_proba(np.concatenate(features.test))
    surest = np.maximum.reduceat(probabilities, np.cumsum(counts) - counts)
    return classifier.classes_[surest.argmax(1)]


def _features(evaluation: Evaluation) -> LabeledFeatures:
    system, task = evaluation.system, evaluation.task
    if not isinstance(system, PassageSystem):
        return labeled_features(evaluation)
    train, test = map(rows_of_passages, system.passages(task.train_texts, task.test_texts))
    return LabeledFeatures(train, task.train_labels, test, task.test_labels, task.train_inputs)


def _plan(task: ClassificationTask, settings: PaperSettings) -> Plan:
    if task.train_pairs is not None:
        return [], [f"length does not run on {task.name}: its examples are pairs of texts."]
    chosen, shots, left_out = {"max_length": settings.max_length}, settings.shots_of(task.name), []
    planned = [Measurement("length_read", chosen, NO_SEED, _measure_reading)]
    examples: dict[int | None, list[int]] = {shots: settings.seeds_of(settings.repeats)}
    try:
        sample_per_class(task.train_labels, shots, settings.seed, task.label_names)
    except ValueError as error:
        examples, left_out = {}, [f"length runs on {task.name} with all examples only: {error}"]
    for number, seeds in (examples | {None: settings.seeds_of(settings.seeds)}).items():
        for classifier in CLASSIFIERS:
            how = {"classifier": classifier, "shots": number} | chosen | held_out_settings(task)
            planned += [Measurement("length", how, seed, _measure) for seed in seeds]
    return planned, left_out


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    task, features = evaluation.task, evaluation.once(_features)
    if settings["shots"] is not None:
        features = features.draw(settings["shots"], seed, task.label_names)
    if settings["classifier"] == "neighbors":
        predictions = knn_predictions(features, seed)
    else:
        predict = passage_predictions if has_passages(features.train) else logistic_predictions
        predictions = predict(features, seed)
    return metrics_by_length(predictions, task.test_labels, word_counts(task.test_texts, task.language))


def _measure_reading(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    texts, encoder = evaluation.task.test_texts, document_encoder(evaluation.system)
    shares, tokens = np.ones(len(texts)), np.zeros(len(texts))
    if encoder is not None:
        strategy = encoding_options(evaluation.system).get("long_documents", "first")
        for piece in read_pieces(texts, encoder.frame, strategy):
            shares[piece.text] = piece.share
            tokens[piece.text] += len(piece.input_ids)
    return reading_by_length(shares, tokens, word_counts(texts, evaluation.task.language))


def _refuses(system: System) -> str | None:
    is_endpoint = isinstance(system, EncoderSystem) and document_encoder(system) is None
    return "whose weights are here, which says what it reads" if is_endpoint else None


LENGTH = Experiment("accuracy by the length of documents", (ClassificationTask,), _plan, _refuses)
