"""Evaluation of a text-classification pipeline on labeled examples, with confidence intervals."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypedDict

import evaluate
import numpy as np
from datasets import Dataset, Value
from scipy.stats import bootstrap

from ..reading.labels import has_several_labels, label_array, label_names_of, texts_of, with_class_labels
from .registry import CLASSIFICATION, metric_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from transformers import TextClassificationPipeline

logger = logging.getLogger(__name__)

Answers = list[list[dict[str, Any]]]  # of each text, the labels with their scores
MOST_COMPARED_EXAMPLES = 10**6  # more would fill the memory with their texts


class BootstrapScore(TypedDict):
    """Score with its confidence interval and standard error, by bootstrap."""

    score: float
    confidence_interval: tuple[float, float]
    standard_error: float


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
) -> dict[str, float | BootstrapScore]:
    """Evaluate ``pipeline("docsplit-knn")``, or ``pipeline("text-classification")``, on labeled examples.

    How many of them are examples that the pipeline has learned from is logged.

    It replaces ``evaluate.evaluator("text-classification").compute``, which evaluate 0.4.6 cannot run with transformers
    5, with three differences. Metrics that accept probabilities get them. Labels are matched by name, without a
    mapping. Confidence intervals are percentiles of resamples, which exist even if all resamples have the same score.

    Args:
        pipe: The pipeline.
        data: A table with a column of texts and one of labels: a DataFrame, a data set, columns by name, or a list of
            rows. A label is a name, or a list of names; or a number of a ``ClassLabel``.
        metric: A name for ``metric_path``; or a result of ``evaluate.load`` or ``evaluate.combine``. None: all metrics
            of classification that ``metric_path`` lists. If a text may have several labels, it gets those with a
            probability of at least 0.5; the thresholds of the pipeline are ignored.
        strategy: ``"simple"``; or ``"bootstrap"``, with confidence intervals.
        confidence_level: The confidence level of the intervals, between 0 and 1.
        n_resamples: The number of resamples for the intervals. 1,000 of 1,000 texts take about 10 s with all metrics.
        random_state: The seed of the resamples.
        text_column: The column of texts. None: ``text``.
        label_column: The column of labels. None: ``label``.
        text_pair_column: The column of second texts. None: ``text_pair``, if it exists.
        **options: Passed to the pipeline, such as ``batch_size`` or ``k``.

    Returns:
        Scores by name; with ``"bootstrap"``, each is a dictionary of ``score``, ``confidence_interval`` (a pair) and
        ``standard_error``. Also ``total_time_in_seconds``, ``samples_per_second`` and
        ``latency_in_seconds`` of the pipeline.

    Raises:
        ValueError: If the strategy is unknown, a column or a label is missing, or the pipeline lacks a label.

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
    _warn_of_own_examples(pipe, texts)
    inputs = texts
    if pairs is not None:
        inputs = [{"text": text, "text_pair": pair} for text, pair in zip(texts, pairs, strict=True)]
    start = perf_counter()
    answers = pipe(inputs, top_k=None, truncation=True, **options)
    seconds = perf_counter() - start
    loaded = metric_class(metric)() if isinstance(metric, str) else metric
    if loaded is None:
        loaded = evaluate.combine([kind() for kind in CLASSIFICATION.values()])
    multi_label = has_several_labels(data)
    names = _all_labels(answers, label_names_of(data))
    labels = label_array(data, names, multi_label)
    predictions = _probabilities(answers, names)
    if not _takes_probabilities(loaded):
        predictions = predictions >= 0.5 if multi_label else predictions.argmax(1)
    scores = loaded.compute(predictions=predictions, references=labels)
    results: dict[str, float | BootstrapScore] = dict(scores)
    if strategy == "bootstrap":

        def scores_of_resample(rows: np.ndarray, axis: int) -> np.ndarray:
            """Compute the scores, ``(scores, 1)``, of the rows of one resample, ``(1, N)``."""
            rows = rows.reshape(-1)
            resampled = loaded.compute(predictions=predictions[rows], references=labels[rows])
            return np.array([[resampled[name]] for name in scores])

        resamples = bootstrap(
            (np.arange(len(labels)),), scores_of_resample, vectorized=True, batch=1, n_resamples=n_resamples,
            confidence_level=confidence_level, method="percentile", random_state=random_state,
        )  # fmt: skip
        for number, (name, score) in enumerate(scores.items()):
            results[name] = {
                "score": score,
                "confidence_interval": tuple(float(bound[number]) for bound in resamples.confidence_interval),
                "standard_error": float(resamples.standard_error[number]),
            }
    return results | {
        "total_time_in_seconds": seconds,
        "samples_per_second": len(texts) / seconds,
        "latency_in_seconds": seconds / len(texts),
    }


def _warn_of_own_examples(pipe: TextClassificationPipeline, texts: Sequence[str]) -> None:
    """Log how many texts are examples of the pipeline, which it answers better than new ones."""
    store = getattr(pipe, "datastore", None)  # of pipeline("docsplit-knn")
    if store is None or len(store) > MOST_COMPARED_EXAMPLES:
        return
    own = set(getattr(store, "texts", ()))  # a store on a server has none to read
    known = sum(text in own for text in texts)
    if known:
        logger.warning(
            "%d of %d texts are examples of the pipeline, which it has learned from: for new texts expect lower scores "
            "than these. Evaluate on other texts; or read the report of fit(), which is measured on held-out texts.",
            known,
            len(texts),
        )


def _takes_probabilities(metric: evaluate.EvaluationModule | evaluate.CombinedEvaluations) -> bool:
    """Whether the metric, or each of combined metrics, accepts a list of probabilities for each text."""
    if isinstance(metric, evaluate.CombinedEvaluations):
        return all(_takes_probabilities(module) for module in metric.evaluation_modules)
    forms = metric.features if isinstance(metric.features, list) else [metric.features]
    return any(not isinstance(form["predictions"], Value) for form in forms)


def _all_labels(answers: Answers, names: list[str]) -> list[str]:
    """List the labels of the data, followed by further labels of the pipeline, sorted.

    Raises:
        ValueError: If the pipeline lacks a label of the data.
    """
    known = set()
    for answers_of_text in answers:
        known.update(answer["label"] for answer in answers_of_text)
    unknown = [name for name in names if name not in known]
    if answers and unknown:
        raise ValueError(
            f"The pipeline has no label {unknown[0]!r} as in the data, only {', '.join(sorted(known))}: rename one."
        )
    return [*names, *sorted(known - set(names))]


def _probabilities(answers: Answers, names: list[str]) -> np.ndarray:
    """Arrange the scores of answers in the order of ``names``, float64 ``(N, C)``."""
    rows = []
    for answers_of_text in answers:
        scores = {answer["label"]: answer["score"] for answer in answers_of_text}
        rows.append([scores.get(name, 0.0) for name in names])
    return np.array(rows).reshape(-1, len(names))
