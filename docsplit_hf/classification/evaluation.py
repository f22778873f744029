"""How good a classifier, its neighbors, the two mixed, and fitted experts are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import evaluate
import numpy as np

from ..metrics.registry import Accuracy, LogLoss, MacroF1, MatthewsCorrelation
from ..neighbors.experts.corpus import texts_in
from ..neighbors.experts.fit_report import at_chance, largest_class
from ..neighbors.experts.fitted_experts import ready_experts
from ..neighbors.experts.held_out_scores import one_hot
from ..neighbors.experts.mixture_of_experts import mix_experts
from ..neighbors.experts.word_experts import fit_vocabulary, vocabulary_scores, word_counts
from ..neighbors.experts.words import fit_words
from ..neighbors.mixing.mixture import Shown, mix_with_neighbors
from ..neighbors.texts_and_labels import joined_texts
from ..text.labels import label_array, texts_of

if TYPE_CHECKING:
    from datasets import Dataset

    from ..models.inference.reader import Reader
    from ..neighbors.store.store import Store

TITLES = {"classifier": "classifier", "knn": "neighbors only", "mixture": "mixture", "experts": "experts"}
TITLES |= {"word_counts": "word counts", "largest_class": "largest class"}


def classification_metrics(probabilities: Any, labels: Any) -> dict[str, float]:
    """``accuracy``, ``macro_f1``, ``matthews_correlation`` and ``log_loss``, by ``docsplit_hf.metrics``.

    ``probabilities``: ``(N, C)``. ``labels``: ``(N,)`` numbers, or ``(N, C)`` of 0 and 1 for several labels per text.
    """
    metrics = evaluate.combine([Accuracy(), MacroF1(), MatthewsCorrelation(), LogLoss()])
    return metrics.compute(predictions=probabilities, references=labels)


def prediction_metrics(predictions: Any, labels: Any) -> dict[str, float]:
    """``accuracy``, ``macro_f1`` and ``matthews_correlation`` of predicted labels, ``(N,)`` both."""
    metrics = evaluate.combine([Accuracy(), MacroF1(), MatthewsCorrelation()])
    return metrics.compute(predictions=predictions, references=labels)


def evaluate_parts(reader: Reader, datastore: Store, dataset: Dataset, prefix: str) -> dict[str, float]:
    """``<prefix>_<part>_<metric>`` of the parts that there are, of word counts, and of always the largest class."""
    config, (texts, pairs) = reader.model.config, texts_of(dataset)
    labels = label_array(dataset, datastore.label_names, datastore.multi_label)
    joined, snapshot = joined_texts(texts, pairs or [None] * len(texts)), datastore.snapshot
    predictions = reader.read(texts, pairs)
    mixed = mix_with_neighbors(predictions, datastore, config.k, config.knn_temperature, config.knn_weight)
    parts = {"knn": mixed.knn}
    if mixed.classifier is not None:
        parts = {"classifier": mixed.classifier, "knn": mixed.knn, "mixture": mixed.mixture}
    if (ready := ready_experts(snapshot)) is not None:
        parts["experts"] = mix_experts(ready, predictions, joined, Shown()).mixture
    targets, several = one_hot(snapshot.labels, np.arange(len(snapshot.label_names))), snapshot.multi_label
    if (known := fit_words(texts_in(snapshot.rows))) is not None:
        scores = vocabulary_scores(known[0].transform(joined), fit_vocabulary(known[1], targets, several))
        parts["word_counts"] = word_counts(scores, several)
    parts["largest_class"] = largest_class(targets, len(texts), several)
    return {
        f"{prefix}_{part}_{name}": value
        for part, probabilities in parts.items()
        for name, value in classification_metrics(probabilities, labels).items()
    }


def describe_parts(metrics: dict[str, float], prefix: str, examples: int, task_metric: str = "accuracy") -> str:
    """The last screen of a run: the metrics of ``evaluate_parts``, with Matthews correlation where it is the task's."""
    shown = {"accuracy": "accuracy {:5.1f} %", "macro_f1": "macro F1 {:5.1f} %", "log_loss": "log loss {:.3f}"}
    if task_metric == "matthews_correlation":
        shown = {task_metric: "Matthews {:5.1f} %"} | shown
    remark = " (the classifier was chosen on them: too good)" if prefix == "validation" else ""
    lines = [f"On {examples:,} {prefix} examples:{remark}"]
    for part, title in TITLES.items():
        values = {name: metrics.get(f"{prefix}_{part}_{name}") for name in shown}
        if values["accuracy"] is not None:
            scaled = ((1 if name == "log_loss" else 100) * value for name, value in values.items())
            texts = (text.format(value) for text, value in zip(shown.values(), scaled, strict=True))
            lines.append(f"  {title:<14} {'   '.join(texts)}")
    accuracy = {part: metrics.get(f"{prefix}_{part}_accuracy") for part in TITLES}
    best = next(accuracy[part] for part in ("experts", "mixture", "knn") if accuracy[part] is not None)
    return "\n".join(lines) + at_chance(best, accuracy["largest_class"], examples)
