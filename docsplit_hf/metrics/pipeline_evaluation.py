"""evaluate_pipeline: metrics of a text-classification pipeline on labeled examples, with confidence intervals."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import evaluate
import numpy as np
from datasets import Value
from scipy.stats import bootstrap

from ..text.labels import is_multi_label, label_array, label_names_of, texts_of, with_class_labels
from .registry import CLASSIFICATION, metric_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from datasets import Dataset
    from transformers import TextClassificationPipeline


def evaluate_pipeline(
    pipe: TextClassificationPipeline,
    data: Dataset | pd.DataFrame | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
    metric: str | evaluate.EvaluationModule | evaluate.CombinedEvaluations | None = None,
    strategy: str = "simple",
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    text_pair_column: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Evaluate ``pipeline("docsplit-knn")``, or ``pipeline("text-classification")``, on labeled examples.

    As ``evaluate.evaluator("text-classification").compute``, which evaluate 0.4.6 cannot run with transformers 5. Three
    things differ. Metrics that can use probabilities get them. Labels are matched by name, without a mapping. And
    confidence intervals are percentiles of resamples, which exist also where every resample gives the same.

    Args:
        pipe: The pipeline.
        data: A table with a column of texts and one of labels: a DataFrame, a data set, columns by name, or a list of
            rows. A label is a name, or a list of names; or a number of a ``ClassLabel``.
        metric: A name that ``metric_path`` takes; or what ``evaluate.load`` or ``evaluate.combine`` gives. None: all
            metrics of classification that ``metric_path`` names. Where a text may have several labels, a probability of
            0.5 is a yes for them, not the thresholds by which answers give ``labels``.
        strategy: ``"simple"``; or ``"bootstrap"``, with confidence intervals.
        confidence_level: Of the intervals.
        n_resamples: Of the data, for the intervals. 1,000 of 1,000 texts take about 10 s with all metrics.
        random_state: The seed of the resamples.
        text_column: The column of texts. None: ``text``; where there is none, it is guessed by names and by what the
            columns hold, which is logged.
        label_column: The column of labels. None: ``label``, or guessed in the same way.
        text_pair_column: The column of second texts. None: ``text_pair``, if there is one.
        **options: Passed to the pipeline, such as ``batch_size`` or ``k``.

    Returns:
        Each score by its name. With ``"bootstrap"``, in place of each a dictionary of ``score``,
        ``confidence_interval``, a pair, and ``standard_error``. Then ``total_time_in_seconds``,
        ``samples_per_second`` and ``latency_in_seconds`` of the pipeline.

    Raises:
        ValueError: If the strategy is unknown, a column or a label is missing, or the pipeline does not know a label.

    Example:

        >>> def pipe(texts, **options):  # in place of transformers.pipeline("docsplit-knn", model=...)
        ...     return [[{"label": "fruit", "score": 0.75}, {"label": "mineral", "score": 0.25}] for _ in texts]
        >>> data = {"text": ["apples", "pears", "iron"], "label": ["fruit", "fruit", "mineral"]}
        >>> round(evaluate_pipeline(pipe, data, "accuracy")["accuracy"], 4)
        0.6667
        >>> result = evaluate_pipeline(pipe, data, "accuracy", "bootstrap", random_state=0)
        >>> result["accuracy"]["confidence_interval"]
        (0.0, 1.0)
    """
    if strategy not in ("simple", "bootstrap"):
        raise ValueError(f"strategy must be 'simple' or 'bootstrap', got {strategy!r}.")
    data = with_class_labels(data, text_column, label_column, text_pair_column)
    texts, pairs = texts_of(data)
    inputs = texts if pairs is None else [{"text": a, "text_pair": b} for a, b in zip(texts, pairs, strict=True)]
    start = perf_counter()
    answers = pipe(inputs, top_k=None, truncation=True, **options)
    seconds = perf_counter() - start
    loaded, multi_label = _loaded(metric), is_multi_label(data)
    names = _all_labels(answers, label_names_of(data))
    labels = label_array(data, names, multi_label)
    predictions = _probabilities(answers, names)
    if not _takes_probabilities(loaded):
        predictions = predictions >= 0.5 if multi_label else predictions.argmax(1)
    scores = loaded.compute(predictions=predictions, references=labels)
    results: dict[str, Any] = dict(scores)
    if strategy == "bootstrap":

        def statistic(rows: np.ndarray, axis: int) -> np.ndarray:  # of one resample, (1, N): each score, (scores, 1)
            found = loaded.compute(predictions=predictions[rows.reshape(-1)], references=labels[rows.reshape(-1)])
            return np.array([[found[name]] for name in scores])

        drawn = bootstrap(
            (np.arange(len(labels)),), statistic, vectorized=True, batch=1, n_resamples=n_resamples,
            confidence_level=confidence_level, method="percentile", random_state=random_state,
        )  # fmt: skip
        for i, (name, score) in enumerate(scores.items()):
            interval = tuple(float(bound[i]) for bound in drawn.confidence_interval)
            error = float(drawn.standard_error[i])
            results[name] = {"score": score, "confidence_interval": interval, "standard_error": error}
    return results | {
        "total_time_in_seconds": seconds,
        "samples_per_second": len(texts) / seconds,
        "latency_in_seconds": seconds / len(texts),
    }


def _loaded(metric: Any) -> evaluate.EvaluationModule | evaluate.CombinedEvaluations:
    if metric is None:
        return evaluate.combine([kind() for kind in CLASSIFICATION.values()])
    return metric_class(metric)() if isinstance(metric, str) else metric


def _takes_probabilities(metric: evaluate.EvaluationModule | evaluate.CombinedEvaluations) -> bool:
    """Whether every one of the metrics takes a list of numbers for each text."""
    if isinstance(metric, evaluate.CombinedEvaluations):
        return all(_takes_probabilities(module) for module in metric.evaluation_modules)
    forms = metric.features if isinstance(metric.features, list) else [metric.features]
    return any(not isinstance(form["predictions"], Value) for form in forms)


def _all_labels(answers: list[list[dict[str, Any]]], names: list[str]) -> list[str]:
    """The labels of the data, and behind them those that only the pipeline knows."""
    known = {answer["label"] for given in answers for answer in given}
    unknown = [name for name in names if name not in known]
    if answers and unknown:
        known = ", ".join(sorted(known))
        raise ValueError(f"The pipeline does not know the label {unknown[0]!r} of the data, but {known}: rename one.")
    return [*names, *sorted(known - set(names))]


def _probabilities(answers: list[list[dict[str, Any]]], names: list[str]) -> np.ndarray:
    """Float64 ``(N, C)``."""
    scores = [{answer["label"]: answer["score"] for answer in given} for given in answers]
    return np.array([[of_text.get(name, 0.0) for name in names] for of_text in scores]).reshape(-1, len(names))
