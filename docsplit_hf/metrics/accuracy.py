"""Accuracy: ``evaluate.load(docsplit_hf.metric_path("accuracy"))``."""

from docsplit_hf.metrics import array_metric, classification  # absolute: evaluate runs a copy of this file


class Accuracy(array_metric.LabelMetric):
    """Accuracy. See ``docsplit_hf.metrics.classification.accuracy``."""

    def _compute(self, predictions, references):
        return {"accuracy": classification.accuracy(predictions, references)}
