"""Log loss: ``evaluate.load(docsplit_hf.metric_path("log_loss"))``."""

import numpy as np

from docsplit_hf.metrics import array_metric, classification_scores  # absolute: evaluate runs a copy of this file


class LogLoss(array_metric.ProbabilityMetric):
    """The mean negative log probability of the label, or per text and label where there are several.

    scikit-learn's clips probabilities at the rounding of their dtype: one certain error of float64 would cost 36.
    """

    def _compute(self, predictions, references):
        probabilities, labels = classification_scores.probabilities_and_labels(predictions, references)
        clipped = np.clip(probabilities, 1e-12, 1 - 1e-12)
        if labels.ndim == 1:
            likelihood = np.take_along_axis(clipped, labels.astype(np.int64)[:, None], axis=1)
        else:
            likelihood = np.where(labels, clipped, 1 - clipped)
        return {"log_loss": float(-np.log(likelihood).mean())}
