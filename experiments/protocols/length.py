"""length: accuracy by the number of words in a document, and how much of it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from docsplit_hf.encoding.chunking import read_chunks
from docsplit_hf.evaluation.probes import (
    LabeledFeatures,
    fit_linear,
    logistic_predictions,
    rows_to_choose_by,
    sample_per_class,
)
from docsplit_hf.evaluation.systems import System
from docsplit_hf.finetuning.metrics_of_parts import prediction_metrics

from ..evaluation.experiment import Evaluation, Experiment, Plan, PlannedMeasurement
from ..evaluation.protocols import held_out_settings, labeled_features
from ..evaluation.systems import EncoderSystem
from ..evaluation.tasks import ClassificationTask, word_counts
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
    metrics = {}
    without_each = {}
    for name, rows in by_length(words).items():
        found = prediction_metrics(predictions[rows], labels[rows])
        metrics[f"macro_f1{name}"] = found["macro_f1"]
        metrics[f"accuracy{name}"] = found["accuracy"]
        correct = (predictions[rows] == labels[rows]).astype(np.float64)
        without_each[f"accuracy{name}"] = ratio_without_each(correct, np.ones(len(rows)))
    accuracies = {name: metrics[name] for name in without_each}
    return metrics | with_intervals(accuracies, without_each)


def reading_by_length(shares: np.ndarray, tokens: np.ndarray, words: np.ndarray) -> dict[str, float]:
    """For all documents and each bucket: the number of documents, mean share read, and mean number of tokens read."""
    found = {}
    for name, rows in by_length(words).items():
        found[f"documents{name}"] = len(rows)
        found[f"share_read{name}"] = float(shares[rows].mean())
        found[f"tokens_read{name}"] = float(tokens[rows].mean())
    return found


def passage_predictions(features: LabeledFeatures, seed: int) -> np.ndarray:
    """Labels ``(M,)``: each document gets the label of the passage that logistic regression is most confident about.

    The classifier is trained on the documents' mean embeddings, since most single passages are uninformative.
    """
    kept, held_out = rows_to_choose_by(features, seed)
    means = normalize(np.stack([passages.mean(0) for passages in features.train]))
    classifier = fit_linear(means, features.train_labels, kept, held_out, seed)
    counts = np.array([len(passages) for passages in features.test])
    probabilities = classifier.predict_proba(np.concatenate(features.test))
    surest = np.maximum.reduceat(probabilities, np.cumsum(counts) - counts)
    return classifier.classes_[surest.argmax(1)]


def _features(evaluation: Evaluation) -> LabeledFeatures:
    system = evaluation.system
    task = evaluation.task
    if not isinstance(system, PassageSystem):
        return labeled_features(evaluation)
    train, test = system.passages(task.train_texts, task.test_texts)
    return LabeledFeatures(
        train=rows_of_passages(train),
        train_labels=task.train_labels,
        test=rows_of_passages(test),
        test_labels=task.test_labels,
        train_inputs=task.train_inputs,
    )


def _plan(task: ClassificationTask, settings: PaperSettings) -> Plan:
    if task.train_pairs is not None:
        return [], [f"length does not run on {task.name}: its examples are pairs of texts."]
    shared = {"max_length": settings.max_length}
    shots = settings.shots_of(task.name)
    left_out = []
    seeds_by_shots: dict[int | None, list[int]] = {}  # None: all examples
    try:
        sample_per_class(task.train_labels, shots, settings.seed, task.label_names)
        seeds_by_shots[shots] = settings.seeds_of(settings.repeats)
    except ValueError as error:
        left_out.append(f"length runs on {task.name} with all examples only: {error}")
    seeds_by_shots[None] = settings.seeds_of(settings.seeds)
    planned = [PlannedMeasurement("length_read", shared, NO_SEED, _measure_reading)]
    for number, seeds in seeds_by_shots.items():
        for classifier in CLASSIFIERS:
            chosen = {"classifier": classifier, "shots": number} | shared | held_out_settings(task)
            planned += [PlannedMeasurement("length", chosen, seed, _measure) for seed in seeds]
    return planned, left_out


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    task = evaluation.task
    features = evaluation.once(_features)
    if settings["shots"] is not None:
        features = features.draw(settings["shots"], seed, task.label_names)
    if settings["classifier"] == "neighbors":
        predictions = knn_predictions(features, seed)
    else:
        predict = passage_predictions if has_passages(features.train) else logistic_predictions
        predictions = predict(features, seed)
    return metrics_by_length(predictions, task.test_labels, word_counts(task.test_texts, task.language))


def _measure_reading(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    texts = evaluation.task.test_texts
    encoder = document_encoder(evaluation.system)
    shares = np.ones(len(texts))
    tokens = np.zeros(len(texts))
    if encoder is not None:
        strategy = encoding_options(evaluation.system).get("long_documents", "first")
        for chunk in read_chunks(texts, encoder.chunk_settings, strategy):
            shares[chunk.text] = chunk.read_fraction
            tokens[chunk.text] += len(chunk.input_ids)
    return reading_by_length(shares, tokens, word_counts(texts, evaluation.task.language))


def _refuses(system: System) -> str | None:
    is_endpoint = isinstance(system, EncoderSystem) and document_encoder(system) is None
    return "whose weights are here, which says what it reads" if is_endpoint else None


LENGTH = Experiment("accuracy by the length of documents", (ClassificationTask,), _plan, _refuses)
