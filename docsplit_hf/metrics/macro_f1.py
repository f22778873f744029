"""Macro F1: ``evaluate.load(docsplit_hf.metric_path("macro_f1"))``."""

from docsplit_hf.metrics import array_metric, classification_scores  # absolute: evaluate runs a copy of this file


class MacroF1(array_metric.LabelMetric):
    """The mean of F1 over the labels that occur or are predicted."""

    def _compute(self, predictions, references):
        from sklearn.metrics import f1_score

        predicted, labels = classification_scores.predicted_labels(predictions, references)
        return {"macro_f1": float(f1_score(labels, predicted, average="macro", zero_division=0))}
