"""Expected calibration error: ``evaluate.load(docsplit_hf.metric_path("expected_calibration_error"))``."""

import numpy as np

from docsplit_hf.metrics import array_metric, classification_scores  # absolute: evaluate runs a copy of this file


class ExpectedCalibrationError(array_metric.ProbabilityMetric):
    """By how much confidence and accuracy differ (Guo et al. 2017, equation 3), in 15 bins of equal width::

        ECE = sum_b |B_b| / N  |accuracy(B_b) - confidence(B_b)|

    With several labels per text, over all pairs of a text and a label: p is the confidence of a yes, 1 - p of a no.
    """

    def _compute(self, predictions, references):
        probabilities, labels = classification_scores.probabilities_and_labels(predictions, references)
        if labels.ndim == 1:
            confidence, is_right = probabilities.max(1), probabilities.argmax(1) == labels
        else:
            confidence = np.maximum(probabilities, 1 - probabilities).ravel()
            is_right = ((probabilities >= 0.5) == labels).ravel()
        bins = np.clip(np.ceil(confidence * 15) - 1, 0, None).astype(int)  # (0, 1/15], (1/15, 2/15] ...
        gaps = np.bincount(bins, is_right - confidence)
        return {"expected_calibration_error": float(np.abs(gaps).sum() / len(confidence))}
