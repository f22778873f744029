import pytest
import torch

from docsplit_hf import AutoModelForDocSplit
from docsplit_hf.pretraining.projection_head import ProjectionHead, use_projection_head


@pytest.mark.parametrize("mlm_head", [True, False])
def test_embeddings_go_through_it_in_training_only(tiny_config, mlm_head):
    model = AutoModelForDocSplit.from_config(tiny_config, pooling="mean", mlm_head=mlm_head)
    ids = torch.randint(5, 100, (4, 10))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    plain = model.train()(**inputs).embeddings
    head = use_projection_head(model, wanted=True)
    projected = torch.tanh(plain @ head.dense.weight.T + head.dense.bias)
    torch.testing.assert_close(model(**inputs).embeddings, projected)
    torch.testing.assert_close(model.eval()(**inputs).embeddings, plain)
    assert use_projection_head(model, wanted=True) is head and use_projection_head(model, wanted=False) is None
    torch.testing.assert_close(model.train()(**inputs).embeddings, plain)


def test_it_begins_the_same_for_the_same_seed_and_takes_nothing_from_the_global_generator(tiny_model):
    first = ProjectionHead(8, 0.5, seed=1)
    torch.manual_seed(3)
    second, third = ProjectionHead(8, 0.5, seed=1), ProjectionHead(8, 0.5, seed=2)
    assert first.dense.weight.equal(second.dense.weight) and not first.dense.weight.equal(third.dense.weight)
    assert ProjectionHead(200, 0.5).dense.weight.std().item() == pytest.approx(0.5, rel=0.02)


def test_autocast_leaves_it_in_float32():
    head, embeddings = ProjectionHead(8, 0.5), torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert head(embeddings).equal(head.float()(embeddings)) and head(embeddings).dtype == torch.float32
    torch.testing.assert_close(head(embeddings.bfloat16()), head(embeddings.bfloat16().float()))
