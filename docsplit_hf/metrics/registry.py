"""The metrics by name, and where they are for ``evaluate.load``."""

from __future__ import annotations

import inspect

import evaluate

from .accuracy import Accuracy
from .expected_calibration_error import ExpectedCalibrationError
from .log_loss import LogLoss
from .macro_f1 import MacroF1
from .matthews_correlation import MatthewsCorrelation
from .mrr import MRR
from .recall_at_k import RecallAtK

CLASSIFICATION = {
    "accuracy": Accuracy,
    "macro_f1": MacroF1,
    "matthews_correlation": MatthewsCorrelation,
    "log_loss": LogLoss,
    "expected_calibration_error": ExpectedCalibrationError,
}
RETRIEVAL = {"recall_at_k": RecallAtK, "mrr": MRR}


def metric_class(name: str) -> type[evaluate.Metric]:
    """The class of a metric, which unlike ``evaluate.load`` needs no cache that can be written to."""
    metrics = CLASSIFICATION | RETRIEVAL
    if name not in metrics:
        raise ValueError(f"There is no metric {name!r}: choose one of {', '.join(metrics)}.")
    return metrics[name]


def metric_path(name: str) -> str:
    """The path of a metric, for ``evaluate.load`` and ``evaluate.combine``.

    The metrics of classification all take ``predictions``, the probabilities ``(N, C)``, and ``references``, the label
    numbers ``(N,)`` or, for several labels per text, ``(N, C)`` of 0 and 1. So they can be combined. ``accuracy``,
    ``macro_f1`` and ``matthews_correlation`` also take predicted label numbers ``(N,)``. The metrics of retrieval both
    take the scores of M candidates ``(N, M)`` and the number of the right one ``(N,)``; or its rank, from 1, ``(N,)``
    and how many candidates there are ``(N,)``. The cutoffs are set by ``evaluate.load(metric_path("recall_at_k"), k=(1,
    5))``.

    Args:
        name: ``accuracy``, ``macro_f1``, ``matthews_correlation``, ``log_loss`` or ``expected_calibration_error``; or
            ``recall_at_k`` or ``mrr``.

    Returns:
        The path of a Python file.

    Raises:
        ValueError: If there is no such metric.

    Example:

        >>> import evaluate
        >>> metrics = evaluate.combine([metric_path("accuracy"), metric_path("log_loss")])
        >>> metrics.compute(predictions=[[0.5, 0.5], [0.5, 0.5]], references=[0, 0])
        {'accuracy': 1.0, 'log_loss': 0.6931471805599453}
    """
    return inspect.getfile(metric_class(name))
