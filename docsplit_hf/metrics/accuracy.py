"""Accuracy: ``evaluate.load(docsplit_hf.metric_path("accuracy"))``."""

from docsplit_hf.metrics import array_metric, classification_scores  # absolute: evaluate runs a copy of this file


class Accuracy(array_metric.LabelMetric):
    """The share of texts whose labels are right, all of them where there are several."""

    def _compute(self, predictions, references):
        from sklearn.metrics import accuracy_score

        predicted, labels = classification_scores.predicted_labels(predictions, references)
        return {"accuracy": float(accuracy_score(labels, predicted))}
