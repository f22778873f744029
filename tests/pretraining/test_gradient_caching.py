import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from docsplit_hf import AutoModelForDocSplit, DataCollatorForDocSplit
from docsplit_hf.models.portable.packing import use_packing
from docsplit_hf.pretraining.gradient_caching import (
    RandomState,
    backward_in_chunks,
    chunk_documents,
    join_views,
    step_in_chunks,
)

CPU = torch.device("cpu")


def _loss(embeddings: torch.Tensor) -> torch.Tensor:
    """Every row has to do with every other."""
    return torch.logsumexp(embeddings @ embeddings.T, 1).mean()


@pytest.mark.parametrize("sizes", [[1] * 7, [3, 3, 1]])
@pytest.mark.parametrize("beside", ["none", "same forward", "own forward"])
def test_the_gradients_are_those_of_the_whole(sizes, beside):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    inputs = torch.randn(7, 4)

    def square(rows):
        return network(rows).square().sum()

    whole = _loss(network(inputs)) + (square(inputs) if beside != "none" else 0)
    whole.backward()
    expected = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    total = backward_in_chunks(
        inputs.split(sizes),
        lambda rows: (network(rows), square(rows) if beside == "same forward" else None),
        lambda parts: _loss(torch.cat(parts)),
        torch.Tensor.backward,
        CPU,
        loss_beside=square if beside == "own forward" else None,
    )
    torch.testing.assert_close(total, whole.detach())
    torch.testing.assert_close([parameter.grad for parameter in network.parameters()], expected)


def test_dropout_is_replayed_chunk_by_chunk():
    """Were it drawn anew, the gradient would be that of other embeddings than the loss has seen."""
    torch.manual_seed(0)
    weight, inputs, seen = torch.ones(4, requires_grad=True), torch.randn(6, 4), []

    def embed(rows):
        embeddings = nn.functional.dropout(rows * weight, 0.5)
        seen.append(embeddings.detach())
        return embeddings, None

    backward_in_chunks(inputs.split(2), embed, lambda parts: _loss(torch.cat(parts)), torch.Tensor.backward, CPU)
    assert all(torch.equal(one, other) for one, other in zip(seen[:3], seen[3:], strict=True))
    kept = torch.cat(seen[:3]) != 0
    same_masks = (inputs * kept * 2).requires_grad_(False)
    again = torch.ones(4, requires_grad=True)
    _loss(same_masks * again).backward()
    torch.testing.assert_close(weight.grad, again.grad)


def test_a_step_in_chunks_has_the_gradients_of_one_graph_with_the_same_dropout(make_tiny_config, tokenizer, documents):
    config = make_tiny_config()
    config.hidden_dropout_prob = 0.1
    model = AutoModelForDocSplit.from_config(config, pooling="mean").train()
    use_packing(model)
    batch = DataCollatorForDocSplit(tokenizer, 16)(list(documents.select(range(7))))

    def whole(embed):
        return _loss(join_views([embed(chunk) for chunk in chunk_documents(batch, 3)]))

    torch.manual_seed(0)
    whole(lambda chunk: model(chunk["input_ids"], chunk["attention_mask"]).embeddings).backward()
    expected = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    model.zero_grad()
    torch.manual_seed(0)
    step_in_chunks(model, batch, 3, None, _loss, None, torch.Tensor.backward, contextlib.nullcontext)
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.01
    for name, gradient in expected.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, atol=1e-5, rtol=1e-5, msg=name)


def test_what_is_drawn_after_a_replay_is_what_would_have_been_drawn_without():
    state = RandomState(CPU)
    first, after = torch.rand(5), torch.get_rng_state()
    with state.replayed():
        assert torch.equal(torch.rand(5), first)
        torch.rand(99)
    assert torch.equal(torch.get_rng_state(), after)


@given(st.integers(1, 9), st.integers(1, 12), st.integers(2, 4), st.data())
def test_chunks_hold_every_token_once_and_join_again(documents, size, views, data):
    rows = views * documents
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, 6), min_size=rows, max_size=rows)))
    mask = (torch.arange(8) < lengths[:, None]).long()
    batch = {
        "document_ids": torch.arange(documents),
        "view_lengths": lengths,
        "attention_mask": mask,
        "input_ids": mask * torch.arange(1, mask.numel() + 1).view(mask.shape),
    }
    chunks = chunk_documents(batch, size)
    assert [len(chunk["document_ids"]) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert torch.equal(torch.cat([chunk["document_ids"] for chunk in chunks]), batch["document_ids"])
    assert torch.equal(join_views([chunk["view_lengths"] for chunk in chunks], views), lengths)
    sums = join_views([chunk["input_ids"].sum(1) for chunk in chunks], views)
    assert torch.equal(sums, batch["input_ids"].sum(1))
    for chunk in chunks:
        assert chunk["attention_mask"].shape[1] == chunk["attention_mask"].sum(1).max()
