"""Recall at k: ``evaluate.load(docsplit_hf.metric_path("recall_at_k"), k=(1, 10))``."""

from docsplit_hf.metrics import array_metric, retrieval_scores  # absolute: evaluate runs a copy of this file


class RecallAtK(array_metric.RankMetric):
    """The share of queries whose right candidate is among the best k, and what guessing gives for k = 1."""

    def __init__(self, *args, k=(1, 10), **kwargs):
        super().__init__(*args, **kwargs)
        self.cutoffs = k

    def _compute(self, predictions, references):
        ranks, candidates = retrieval_scores.ranks_and_candidates(predictions, references)
        recalls = {f"recall@{k}": (ranks <= k).float().mean().item() for k in self.cutoffs}
        return recalls | {"chance_recall@1": 1 / candidates.double().mean().item()}
