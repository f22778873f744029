"""Mean reciprocal rank: ``evaluate.load(docsplit_hf.metric_path("mrr"))``."""

from docsplit_hf.metrics import array_metric, retrieval_scores  # absolute: evaluate runs a copy of this file


class MRR(array_metric.RankMetric):
    """The mean of 1 / rank of the right candidate, in float32."""

    def _compute(self, predictions, references):
        ranks, _ = retrieval_scores.ranks_and_candidates(predictions, references)
        return {"mrr": ranks.reciprocal().mean().item()}
