"""InfoNCE against closed forms."""

import math

import pytest
import torch

from docsplit_hf.pretraining.info_nce import info_nce


def random_pair(size=6, dimension=8):
    return torch.randn(2, size, dimension, generator=torch.Generator().manual_seed(0))


def test_orthogonal_documents_give_the_closed_form():
    embeddings = torch.eye(5)
    result = info_nce(embeddings, embeddings, temperature=0.5)
    assert result.loss == pytest.approx([math.log(1 + 4 * math.exp(-2))] * 5, abs=1e-6)
    assert (result.correct == 1).all() and (result.positive_similarity == 1).all()
    assert (result.negative_similarity == 0).all()


def test_the_loss_is_cross_entropy_of_cosine_similarities_or_dot_products():
    anchors, positives = random_pair()
    for similarity, scores in {
        "cosine": torch.cosine_similarity(anchors[:, None], positives[None], dim=2),
        "dot": anchors @ positives.T,
    }.items():
        expected = torch.nn.functional.cross_entropy(scores / 0.7, torch.arange(6))
        loss = info_nce(anchors, positives, 0.7, similarity=similarity).loss.mean()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_duplicates_are_not_negatives():
    anchors, positives = random_pair()
    ids = torch.tensor([1, 2, 1, 3, 4, 5])
    result = info_nce(anchors, positives, anchor_ids=ids, candidate_ids=ids)
    assert result.negatives.tolist() == [4, 5, 4, 5, 5, 5]
    keep = torch.tensor([0, 1, 3, 4, 5])
    torch.testing.assert_close(result.loss[0], info_nce(anchors[keep], positives[keep]).loss[0])


def test_without_negatives_loss_and_gradient_are_0():
    anchors = torch.randn(1, 4, requires_grad=True)
    result = info_nce(anchors, torch.randn(1, 4))
    result.loss.sum().backward()
    assert result.loss.item() == 0 and (anchors.grad == 0).all() and result.negative_similarity.item() == 0


def test_low_precision_embeddings_are_compared_in_float32():
    anchors, positives = random_pair(32, 64).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        result = info_nce(anchors, positives)
    torch.testing.assert_close(result.loss, info_nce(anchors.float(), positives.float()).loss)
