import pytest
import torch

from docsplit_hf.pretraining.half_retrieval import half_retrieval_metrics


def test_perfect_and_reversed():
    halves = torch.eye(12)
    perfect = half_retrieval_metrics(halves, 3 * halves)
    assert perfect == {"recall@1": 1, "recall@10": 1, "mrr": 1, "chance_recall@1": pytest.approx(1 / 12)}
    worst = half_retrieval_metrics(halves, -halves)
    assert worst["recall@1"] == worst["recall@10"] == 0 and worst["mrr"] == pytest.approx(1 / 12)


def test_by_hand():
    anchors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]])
    positives = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    metrics = half_retrieval_metrics(anchors, positives, cutoffs=(1, 2))  # ranks 1, 2, 3
    assert metrics["recall@1"] == pytest.approx(1 / 3) and metrics["recall@2"] == pytest.approx(2 / 3)
    assert metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_duplicates_of_the_document_do_not_count_as_wrong():
    halves = torch.eye(3)[[0, 0, 1]]
    assert half_retrieval_metrics(halves, halves)["recall@1"] == pytest.approx(1 / 3)
    assert half_retrieval_metrics(halves, halves, torch.tensor([5, 5, 6]))["recall@1"] == 1


def test_chunks_give_the_same_as_one_matrix():
    generator = torch.Generator().manual_seed(0)
    anchors, positives = torch.randn(2, 2500, 8, generator=generator)
    similarity = torch.nn.functional.normalize(anchors) @ torch.nn.functional.normalize(positives).T
    ranks = (similarity > similarity.diagonal()[:, None]).sum(1) + 1
    assert half_retrieval_metrics(anchors, positives)["mrr"] == pytest.approx((1 / ranks).mean().item(), rel=1e-4)
