"""Gradients and random numbers of gradient caching."""

import contextlib

import pytest
import torch

from docsplit_hf import AutoModelForDocSplit, DataCollatorForDocSplit
from docsplit_hf.encoding.portable.run_encoder import use_packing
from docsplit_hf.pretraining.gradient_caching import RandomState, chunk_documents, join_views, step_in_chunks


def _loss(embeddings: torch.Tensor) -> torch.Tensor:
    """A loss in which every row interacts with every other."""
    return torch.logsumexp(embeddings @ embeddings.T, 1).mean()


def test_a_step_in_chunks_has_the_gradients_of_one_graph_with_the_same_dropout(make_tiny_config, tokenizer, documents):
    config = make_tiny_config()
    config.hidden_dropout_prob = 0.1
    model = AutoModelForDocSplit.from_config(config, pooling="mean").train()
    use_packing(model)
    batch = DataCollatorForDocSplit(tokenizer, 16, mlm_probability=0)(list(documents.select(range(7))))

    def whole(embed):
        return _loss(join_views([embed(chunk) for chunk in chunk_documents(batch, 3)]))

    torch.manual_seed(0)
    whole(lambda chunk: model(chunk["input_ids"], chunk["attention_mask"]).embeddings).backward()
    expected = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    model.zero_grad()
    torch.manual_seed(0)
    step_in_chunks(model, batch, 3, _loss, None, torch.Tensor.backward, contextlib.nullcontext)
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.01
    for name, gradient in expected.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, atol=1e-5, rtol=1e-5, msg=name)


@pytest.mark.parametrize("mlm_probability", [0, 0.15])
def test_processes_average_their_gradients_after_the_last_backward_pass_alone(
    tiny_model, tokenizer, documents, mlm_probability
):
    batch = DataCollatorForDocSplit(tokenizer, 16, mlm_probability)(list(documents.select(range(7))))
    is_kept_apart = False
    passes = []

    @contextlib.contextmanager
    def no_sync():
        nonlocal is_kept_apart
        is_kept_apart = True
        yield
        is_kept_apart = False

    def backward(loss):
        loss.backward()
        passes.append(is_kept_apart)

    step_in_chunks(tiny_model, batch, 3, _loss, lambda loss, chunk: loss, backward, no_sync)
    assert passes == [True] * (5 if mlm_probability else 2) + [False]


def test_a_replay_does_not_change_later_random_numbers():
    state = RandomState(torch.device("cpu"))
    first = torch.rand(5)
    after = torch.get_rng_state()
    with state.replayed():
        assert torch.equal(torch.rand(5), first)
        torch.rand(99)
    assert torch.equal(torch.get_rng_state(), after)
