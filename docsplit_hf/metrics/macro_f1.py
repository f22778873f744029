"""Macro F1: ``evaluate.load(docsplit_hf.metric_path("macro_f1"))``."""

from docsplit_hf.metrics import array_metric, classification  # absolute: evaluate runs a copy of this file


class MacroF1(array_metric.LabelMetric):
    """Macro F1. See ``docsplit_hf.metrics.classification.macro_f1``."""

    def _compute(self, predictions, references):
        return {"macro_f1": classification.macro_f1(predictions, references)}
