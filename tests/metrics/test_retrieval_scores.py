import evaluate
import numpy as np
import pytest
import sklearn.metrics

from docsplit_hf import metric_path


@pytest.fixture
def metrics():
    return evaluate.combine([evaluate.load(metric_path("recall_at_k"), k=(1, 3)), metric_path("mrr")])


def test_of_scores_they_are_as_scikit_learn_has_them(metrics):
    scores, right = np.random.default_rng(0).random((300, 20)), np.random.default_rng(1).integers(0, 20, 300)
    found = metrics.compute(predictions=scores, references=right)
    for k in (1, 3):
        expected = sklearn.metrics.top_k_accuracy_score(right, scores, k=k, labels=range(20))
        assert found[f"recall@{k}"] == pytest.approx(expected)
    expected = sklearn.metrics.label_ranking_average_precision_score(np.eye(20)[right], scores)
    assert found["mrr"] == pytest.approx(expected) and found["chance_recall@1"] == 1 / 20
    ranks = (scores >= scores[np.arange(300), right][:, None]).sum(1)
    assert metrics.compute(predictions=ranks, references=np.full(300, 20)) == found


def test_equal_scores_and_nan_count_as_wrong(metrics):
    for score in (1.0, np.nan):
        found = metrics.compute(predictions=np.full((4, 5), score), references=np.arange(4))
        assert found["recall@1"] == found["recall@3"] == 0 and found["mrr"] == pytest.approx(1 / 5)


@pytest.mark.parametrize("predictions, references", [(np.zeros((3, 4)), np.zeros(2, int)), (np.zeros((0, 4)), [])])
def test_what_cannot_be_computed_is_named(metrics, predictions, references):
    with pytest.raises(ValueError, match="scores of shape|no examples"):
        metrics.compute(predictions=predictions, references=references)
