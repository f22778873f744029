"""Metrics of a classifier, its neighbors, their mixture by equation 3, and the fitted experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import evaluate
import numpy as np

from ..classifier.model_card import TITLES
from ..fitting.ensemble.held_out_metrics import largest_class
from ..fitting.ensemble.held_out_scores import one_hot
from ..fitting.ensemble.predicting import predict_with_experts
from ..fitting.ensemble.report import at_chance
from ..fitting.ensemble.scoring import PreparedExperts, prepare_experts
from ..fitting.experts.corpus import texts_in
from ..fitting.experts.text_vectors import Tfidf, fit_words
from ..fitting.experts.word_experts import fit_word_regression, probabilities_of_log_odds, word_log_odds
from ..fitting.interpolation import interpolate_with_neighbors
from ..fitting.label_tree import FLAT, LabelTree, label_paths, label_tree
from ..fitting.prediction import TextInputs
from ..metrics.registry import Accuracy, LogLoss, MacroF1, MatthewsCorrelation
from ..reading.inputs import joined_texts
from ..reading.labels import label_array, texts_of
from ..reading.shingles import number_words

if TYPE_CHECKING:
    from datasets import Dataset

    from ..arrays.snapshot import Snapshot
    from ..classifier.knn_datastore import KNNDatastore
    from ..encoding.text_embedder import TextEmbedder


def classification_metrics(probabilities: Any, labels: Any) -> dict[str, float]:
    """Compute ``accuracy``, ``macro_f1``, ``matthews_correlation`` and ``log_loss`` of probabilities ``(N, C)``.

    The labels are numbers ``(N,)``, or 0 and 1 ``(N, C)`` for several labels per text.
    """
    metrics = evaluate.combine([Accuracy(), MacroF1(), MatthewsCorrelation(), LogLoss()])
    return metrics.compute(predictions=probabilities, references=labels)


def prediction_metrics(predictions: Any, labels: Any) -> dict[str, float]:
    """Compute ``accuracy``, ``macro_f1`` and ``matthews_correlation`` of predicted labels; both arguments ``(N,)``."""
    metrics = evaluate.combine([Accuracy(), MacroF1(), MatthewsCorrelation()])
    return metrics.compute(predictions=predictions, references=labels)


def evaluate_parts(embedder: TextEmbedder, datastore: KNNDatastore, dataset: Dataset, prefix: str) -> dict[str, float]:
    """Compute metrics ``<prefix>_<part>_<metric>`` of the parts of a classifier and of two baselines.

    The baselines are logistic regression on TF-IDF of words ("word_counts"), and always the largest class.
    """
    texts, pairs = texts_of(dataset)
    config = embedder.model.config
    snapshot = datastore.snapshot
    labels = label_array(dataset, datastore.label_names, datastore.multi_label)
    joined = joined_texts(texts, pairs or [None] * len(texts))
    predictions = embedder.embed(texts, pairs)
    mixed = interpolate_with_neighbors(predictions, snapshot, config.k, config.knn_temperature, config.knn_weight)
    parts = {"knn": mixed.knn}
    if mixed.classifier is not None:
        parts = {"classifier": mixed.classifier, "knn": mixed.knn, "mixture": mixed.probabilities}
    experts = prepare_experts(snapshot)
    if experts is not None:
        inputs = TextInputs(joined, predictions, documents=None, origins=[None] * len(joined))
        parts["experts"] = predict_with_experts(experts, inputs, {}).probabilities
    targets = one_hot(snapshot.labels, np.arange(len(snapshot.label_names)))
    word_counts = _word_regression(snapshot, targets, joined)
    if word_counts is not None:
        parts["word_counts"] = word_counts
    parts["largest_class"] = largest_class(targets, len(texts), snapshot.multi_label)
    metrics = {}
    tree = FLAT if snapshot.multi_label else _tree(snapshot, experts)
    for part, probabilities in parts.items():
        for name, value in classification_metrics(probabilities, labels).items():
            metrics[f"{prefix}_{part}_{name}"] = value
        for number, level in enumerate(tree, start=1):
            best = level.node_of_label[np.argmax(probabilities, axis=1)]
            for name, value in prediction_metrics(best, level.node_of_label[labels]).items():
                metrics[f"{prefix}_{part}_level_{number}_{name}"] = value
    return metrics


def _tree(snapshot: Snapshot, experts: PreparedExperts | None) -> LabelTree:
    """The tree of all labels: as they were fitted, otherwise by their names."""
    names = snapshot.label_names
    return label_tree(label_paths(names)) if experts is None else experts.fitted.tree_of(names)


def _word_regression(snapshot: Snapshot, targets: np.ndarray, texts: list[str]) -> np.ndarray | None:
    """Probabilities ``(N, C)`` by logistic regression on TF-IDF of the examples; None if they have no words.

    The baseline of ``fit`` is the same regression, but its TF-IDF is fitted on the documents, too.
    """
    terms, idf, words = fit_words(number_words(texts_in(snapshot.rows)))
    if words is None:
        return None
    regression = fit_word_regression(words, targets)
    log_odds = word_log_odds(Tfidf(terms, idf).transform(texts), regression)
    return probabilities_of_log_odds(log_odds, snapshot.multi_label)


def describe_parts(metrics: dict[str, float], prefix: str, examples: int) -> str:
    """Format the metrics of ``evaluate_parts``."""
    remark = " (optimistic: the checkpoint was chosen on them)" if prefix == "validation" else ""
    lines = [f"On {examples:,} {prefix} examples:{remark}"]
    for part, title in TITLES.items():
        start = f"{prefix}_{part}"
        if metrics.get(f"{start}_accuracy") is None:
            continue
        columns = [
            f"accuracy {100 * metrics[f'{start}_accuracy']:5.1f} %",
            f"macro F1 {100 * metrics[f'{start}_macro_f1']:5.1f} %",
            f"log loss {metrics[f'{start}_log_loss']:.3f}",
        ]
        number = 1
        while (accuracy := metrics.get(f"{start}_level_{number}_accuracy")) is not None:
            columns.append(f"level {number} {100 * accuracy:5.1f} %")
            number += 1
        lines.append(f"  {title:<14} {'   '.join(columns)}")
    accuracy = {part: metrics.get(f"{prefix}_{part}_accuracy") for part in TITLES}
    best = next(accuracy[part] for part in ("experts", "mixture", "knn") if accuracy[part] is not None)
    return "\n".join(lines) + at_chance(best, accuracy["largest_class"], examples)
