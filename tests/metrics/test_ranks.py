"""Metrics of ranks against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
import torch

from docsplit_hf.metrics.ranks import rank_metrics, ranks_of_right


def test_ranks_equal_scikit_learns():
    scores = np.random.default_rng(0).random((20, 20))
    found = rank_metrics(ranks_of_right(torch.from_numpy(scores), torch.arange(20)))
    for k in (1, 10):
        expected = sklearn.metrics.top_k_accuracy_score(np.arange(20), scores, k=k, labels=range(20))
        assert found[f"recall@{k}"] == pytest.approx(expected)
    expected = sklearn.metrics.label_ranking_average_precision_score(np.eye(20), scores)
    assert found["mrr"] == pytest.approx(expected) and found["chance_recall@1"] == 1 / 20


@pytest.mark.parametrize("score", [1.0, np.nan])
def test_equal_scores_and_nan_count_as_wrong(score):
    found = rank_metrics(ranks_of_right(torch.full((5, 5), score), torch.arange(5)))
    assert found["recall@1"] == 0 and found["mrr"] == pytest.approx(1 / 5)
