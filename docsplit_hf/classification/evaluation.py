"""How good a classifier, its neighbors and the two mixed are."""

from __future__ import annotations

from typing import Any

import evaluate

from ..metrics.accuracy import Accuracy
from ..metrics.log_loss import LogLoss
from ..metrics.macro_f1 import MacroF1


def classification_metrics(probabilities: Any, labels: Any) -> dict[str, float]:
    """``accuracy``, ``macro_f1`` and ``log_loss``, by ``docsplit_hf.metrics``.

    ``probabilities``: ``(N, C)``. ``labels``: ``(N,)`` numbers, or ``(N, C)`` of 0 and 1 for several labels per text.
    """
    metrics = evaluate.combine([Accuracy(), MacroF1(), LogLoss()])
    return metrics.compute(predictions=probabilities, references=labels)


def prediction_metrics(predictions: Any, labels: Any) -> dict[str, float]:
    """``accuracy`` and ``macro_f1`` of predicted labels, ``(N,)`` both."""
    return evaluate.combine([Accuracy(), MacroF1()]).compute(predictions=predictions, references=labels)


def describe_parts(metrics: dict[str, float], prefix: str, examples: int) -> str:
    """The last screen of a run: the metrics of ``evaluate_with_neighbors`` under a prefix, for this many examples."""
    titles = {"classifier": "classifier", "knn": "neighbors", "mixture": "mixture"}
    template = "  {:<12} accuracy {:5.1f} %   macro F1 {:5.1f} %   log loss {:.3f}"
    remark = " (epoch and calibration were chosen on them: too good)" if prefix == "validation" else ""
    lines = [f"On {examples:,} {prefix} examples:{remark}"]
    for part, title in titles.items():
        accuracy, macro_f1, log_loss = (
            metrics[f"{prefix}_{part}_{name}"] for name in ("accuracy", "macro_f1", "log_loss")
        )
        lines.append(template.format(title, 100 * accuracy, 100 * macro_f1, log_loss))
    return "\n".join(lines)
