"""Metrics of classification by name, as modules of ``evaluate`` that need no network; and ranks for retrieval."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import sklearn.metrics
import torch
from datasets import Features, List, Value

from .of_arrays import accuracy, log_loss, macro_f1, predicted_labels, probabilities_and_labels

SCORE_LIST = List(Value("float64"))
NUMBER = Value("int64")
PROBABILITIES = ((SCORE_LIST, NUMBER), (SCORE_LIST, List(NUMBER)))  # one label per text, or several as 0 and 1


class ArrayMetric(evaluate.Metric):
    """Base class of metrics that ``compute`` computes directly on arrays; ``add_batch`` works as in ``evaluate``.

    ``evaluate`` first writes each row to a file as a list: 2 s for 50,000 rows of 100, more than all metrics take.
    """

    inputs = PROBABILITIES  # pairs of features: predictions, references

    def _info(self) -> evaluate.MetricInfo:
        features = [Features({"predictions": given, "references": right}) for given, right in self.inputs]
        return evaluate.MetricInfo(description=type(self).__doc__, citation="", features=features)

    def _build_data_dir(self) -> str:
        # A private method of evaluate 0.4: every metric makes a folder in the cache, although only add_batch writes to
        # it. Without this, an evaluation would fail if the cache is read-only.
        try:
            return super()._build_data_dir()
        except OSError:
            return tempfile.gettempdir()

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, float] | None:
        """Compute the metric, with the arguments of ``evaluate.Metric.compute``."""
        if (predictions is None) != (references is None):
            raise ValueError("Give predictions and references, or neither after add_batch.")
        if predictions is None or len(self) or self.num_process > 1:
            return super().compute(predictions=predictions, references=references, **options)
        return self._compute(predictions, references, **options)


class LabelMetric(ArrayMetric):
    """Base class of metrics of probabilities, or of predicted label numbers ``(N,)``."""

    inputs = ((NUMBER, NUMBER), *PROBABILITIES)


class Accuracy(LabelMetric):
    """Fraction of texts with the right label, or with all labels right."""

    def _compute(self, predictions, references):
        return {"accuracy": accuracy(predictions, references)}


class MacroF1(LabelMetric):
    """Mean of F1 over the labels that occur or are predicted; with several labels per text, over all labels."""

    def _compute(self, predictions, references):
        return {"macro_f1": macro_f1(predictions, references)}


class MatthewsCorrelation(LabelMetric):
    """Matthews correlation coefficient; with several labels per text, over all pairs of a text and a label."""

    def _compute(self, predictions, references):
        predicted, labels = predicted_labels(predictions, references)
        if (labels == labels.flat[0]).all():  # 0 / 0; scikit-learn returns 0 too, with a warning
            return {"matthews_correlation": 0.0}
        return {"matthews_correlation": float(sklearn.metrics.matthews_corrcoef(labels.ravel(), predicted.ravel()))}


class LogLoss(ArrayMetric):
    """Mean negative log probability of the label; with several labels per text, over pairs of a text and a label."""

    def _compute(self, predictions, references):
        return {"log_loss": log_loss(predictions, references)}


class ExpectedCalibrationError(ArrayMetric):
    """Mean difference of confidence and accuracy (Guo et al. 2017, equation 3), in 15 bins of equal width::

        ECE = sum_b |B_b| / N  |accuracy(B_b) - confidence(B_b)|

    With several labels per text, it is over all pairs of a text and a label, with confidence max(p, 1 - p).
    scikit-learn does not have this metric.
    """

    def _compute(self, predictions, references):
        probabilities, labels = probabilities_and_labels(predictions, references)
        if labels.ndim == 1:
            confidence = probabilities.max(1)
            is_right = probabilities.argmax(1) == labels
        else:
            confidence = np.maximum(probabilities, 1 - probabilities).ravel()
            is_right = ((probabilities >= 0.5) == labels).ravel()
        bins = np.clip(np.ceil(confidence * 15) - 1, 0, None).astype(int)  # (0, 1/15], (1/15, 2/15] ...
        gaps = np.bincount(bins, is_right - confidence)
        return {"expected_calibration_error": float(np.abs(gaps).sum() / len(confidence))}


CLASSIFICATION = {
    "accuracy": Accuracy,
    "macro_f1": MacroF1,
    "matthews_correlation": MatthewsCorrelation,
    "log_loss": LogLoss,
    "expected_calibration_error": ExpectedCalibrationError,
}


def metric_class(name: str) -> type[evaluate.Metric]:
    """Class of a metric by name; unlike ``evaluate.load``, it needs no writable cache."""
    if name not in CLASSIFICATION:
        raise ValueError(f"There is no metric {name!r}: choose one of {', '.join(CLASSIFICATION)}.")
    return CLASSIFICATION[name]


def metric_path(name: str) -> str:
    """Return the path of a metric, for ``evaluate.load`` and ``evaluate.combine``.

    All metrics of classification accept probabilities ``(N, C)`` as ``predictions``, and label numbers ``(N,)``, or 0
    and 1 ``(N, C)`` for several labels per text, as ``references``. So they can be combined. ``accuracy``, ``macro_f1``
    and ``matthews_correlation`` also accept predicted label numbers ``(N,)``.

    Args:
        name: ``accuracy``, ``macro_f1``, ``matthews_correlation``, ``log_loss`` or ``expected_calibration_error``.

    Returns:
        The path of a Python file, which exists until this process ends.

    Raises:
        ValueError: If no metric has this name.

    Example:

        >>> import evaluate
        >>> metrics = evaluate.combine([metric_path("accuracy"), metric_path("log_loss")])
        >>> metrics.compute(predictions=[[0.5, 0.5], [0.5, 0.5]], references=[0, 0])
        {'accuracy': 1.0, 'log_loss': 0.6931471805599453}
    """
    # evaluate.load copies the file into its cache, and uses the first metric in it.
    file = Path(_folder().name, f"{name}.py")
    file.write_text(f"from docsplit_hf.metrics.registry import {metric_class(name).__name__}\n", encoding="utf-8")
    return str(file)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="docsplit_hf-metrics-")


def rank_metrics(ranks: torch.Tensor) -> dict[str, float]:
    """Compute ``recall@1``, ``recall@10``, ``mrr`` and ``chance_recall@1`` by ranks from 1 among N, ``(N,)``."""
    return {
        "recall@1": (ranks <= 1).float().mean().item(),
        "recall@10": (ranks <= 10).float().mean().item(),
        "mrr": ranks.reciprocal().mean().item(),
        "chance_recall@1": 1 / len(ranks),
    }


def ranks_of_right(
    similarities: torch.Tensor, right: torch.Tensor, document_ids: torch.Tensor | None = None
) -> torch.Tensor:
    """Rank of the ``right`` candidate, from 1, ``(R,)``, by similarities ``(R, N)``; tied candidates rank before it.

    ``document_ids`` ``(N,)`` are equal for duplicates; duplicates of the right candidate are ignored.
    """
    rows = torch.arange(len(right), device=right.device)
    better = ~(similarities < similarities[rows, right][:, None])  # also true of NaN, so that it never ranks first
    better[rows, right] = False
    if document_ids is not None:
        better &= document_ids[right][:, None] != document_ids[None]
    return better.sum(1) + 1
