"""The base classes of our metrics: ``evaluate.Metric`` for predictions that are arrays."""

from __future__ import annotations

import tempfile
from typing import Any

import evaluate
from datasets import Features, List, Value

SCORES, NUMBERS = List(Value("float64")), Value("int64")
LABELS = (NUMBERS, List(NUMBERS))  # one label per text, or several as 0 and 1


class ArrayMetric(evaluate.Metric):
    """A metric whose arrays are computed on as they are; ``add_batch`` collects batches of them as in ``evaluate``.

    ``evaluate`` writes each row into a file first, as a list: 2 s for 50,000 rows of 100, more than all metrics take.
    """

    inputs = ()  # pairs of features: of predictions, and of references

    def _info(self) -> evaluate.MetricInfo:
        features = [Features({"predictions": given, "references": right}) for given, right in self.inputs]
        return evaluate.MetricInfo(description=type(self).__doc__, citation="", features=features)

    def _build_data_dir(self) -> str:
        # Private, of evaluate 0.4: every metric makes a folder in the cache, which only add_batch writes to. A run must
        # not end in its first evaluation because its cache cannot be written to.
        try:
            return super()._build_data_dir()
        except OSError:
            return tempfile.gettempdir()

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> dict[str, float] | None:
        """As ``evaluate.Metric.compute``."""
        if (predictions is None) != (references is None):
            raise ValueError("Give predictions and references, or neither after add_batch.")
        if predictions is None or len(self) or self.num_process > 1:
            return super().compute(predictions=predictions, references=references, **options)
        return self._compute(predictions, references, **options)


class ProbabilityMetric(ArrayMetric):
    """Of probabilities ``(N, C)`` and labels: ``(N,)``, or ``(N, C)`` of 0 and 1 for several labels per text."""

    inputs = tuple((SCORES, labels) for labels in LABELS)


class LabelMetric(ArrayMetric):
    """Of probabilities as ``ProbabilityMetric``, or of predicted label numbers ``(N,)``."""

    inputs = ((NUMBERS, NUMBERS), *ProbabilityMetric.inputs)


class RankMetric(ArrayMetric):
    """Of scores ``(N, M)`` and right candidates ``(N,)``; or of ranks ``(N,)`` and how many were ranked ``(N,)``."""

    inputs = ((NUMBERS, NUMBERS), (SCORES, NUMBERS))
