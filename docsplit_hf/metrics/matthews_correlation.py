"""Matthews correlation: ``evaluate.load(docsplit_hf.metric_path("matthews_correlation"))``."""

from docsplit_hf.metrics import array_metric, classification_scores  # absolute: evaluate runs a copy of this file


class MatthewsCorrelation(array_metric.LabelMetric):
    """Matthews correlation coefficient; with several labels per text, over all pairs of a text and a label."""

    def _compute(self, predictions, references):
        from sklearn.metrics import matthews_corrcoef

        predicted, labels = classification_scores.predicted_labels(predictions, references)
        if (labels == labels.flat[0]).all():  # 0 / 0, which scikit-learn takes for 0 too, with a warning
            return {"matthews_correlation": 0.0}
        return {"matthews_correlation": float(matthews_corrcoef(labels.ravel(), predicted.ravel()))}
