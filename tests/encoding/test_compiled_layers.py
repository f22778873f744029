"""Compiled layers: equal results, and no trace in what is saved or copied."""

import copy

import pytest
import torch
from transformers import BertConfig, BertModel, LongformerConfig, LongformerModel

from docsplit_hf.encoding.compiled_layers import compile_layers, why_not_compiled
from docsplit_hf.encoding.portable.run_encoder import run_encoder, use_packing

# torch's compiler uses a deprecated part of torch.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")

SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def _rows(*lengths):
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(3, 50, mask.shape, generator=torch.Generator().manual_seed(0))
    return ids * mask, mask


def _states_and_gradients(model, *rows):
    model.zero_grad()
    states = run_encoder(model, *rows).last_hidden_state
    states.square().mean().backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return states.detach(), gradients


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["on", "off"])
def test_compiled_layers_give_equal_states_and_gradients_for_any_shape(packing):
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SIZES, attention_probs_dropout_prob=0, hidden_dropout_prob=0)).train()
    use_packing(model, packing)
    inputs = [_rows(9, 4, 6), _rows(3, 12)]
    expected = [_states_and_gradients(model, *rows) for rows in inputs]
    names = set(model.state_dict())
    # What inductor would compile, without a minute of its C++ compiler; the tests for GPUs run inductor.
    assert compile_layers(model, backend="aot_eager") == 2
    torch._dynamo.utils.counters.clear()
    for rows, (states, gradients) in zip(inputs, expected, strict=True):
        found_states, found = _states_and_gradients(model, *rows)
        torch.testing.assert_close(found_states, states)
        assert found.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(found[name], gradient, msg=name)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert set(model.state_dict()) == names
    copied = copy.deepcopy(model)
    assert all(module._compiled_call_impl is None for module in copied.modules())


def test_compiling_is_refused_where_there_are_no_layers_and_left_out_on_cpus():
    with pytest.raises(ValueError, match="Linear has no layers"):
        compile_layers(torch.nn.Linear(2, 2))
    assert why_not_compiled(BertModel(BertConfig(**SIZES)), torch.device("cpu")) == "it takes minutes on a CPU"
    assert "Linear has no layers" in why_not_compiled(torch.nn.Linear(2, 2), torch.device("cuda"))


def test_layers_inside_layers_are_not_compiled_again():
    model = LongformerModel(LongformerConfig(**SIZES, attention_window=4, max_position_embeddings=40))
    assert compile_layers(model) == 2
