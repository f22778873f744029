"""Expected calibration error: ``evaluate.load(docsplit_hf.metric_path("expected_calibration_error"))``."""

from docsplit_hf.metrics import array_metric, classification  # absolute: evaluate runs a copy of this file


class ExpectedCalibrationError(array_metric.ProbabilityMetric):
    """Expected calibration error. See ``docsplit_hf.metrics.classification.expected_calibration_error``."""

    def _compute(self, predictions, references):
        return {"expected_calibration_error": classification.expected_calibration_error(predictions, references)}
