"""Matthews correlation: ``evaluate.load(docsplit_hf.metric_path("matthews_correlation"))``."""

from docsplit_hf.metrics import array_metric, classification  # absolute: evaluate runs a copy of this file


class MatthewsCorrelation(array_metric.LabelMetric):
    """Matthews correlation. See ``docsplit_hf.metrics.classification.matthews_correlation``."""

    def _compute(self, predictions, references):
        return {"matthews_correlation": classification.matthews_correlation(predictions, references)}
