"""Log loss: ``evaluate.load(docsplit_hf.metric_path("log_loss"))``."""

from docsplit_hf.metrics import array_metric, classification  # absolute: evaluate runs a copy of this file


class LogLoss(array_metric.ProbabilityMetric):
    """Log loss. See ``docsplit_hf.metrics.classification.log_loss``."""

    def _compute(self, predictions, references):
        return {"log_loss": classification.log_loss(predictions, references)}
