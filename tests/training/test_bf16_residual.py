"""Layer norms that take and give bfloat16."""

import copy

import torch
from transformers import BertConfig, BertModel

from docsplit_hf.training.bf16_residual import use_bf16_residual

CONFIG = BertConfig(
    vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip


def _states(model, in_bf16=True):
    rows = torch.arange(3, 33).view(2, 15)
    with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
        return model(rows).last_hidden_state


def test_states_between_layers_are_bfloat16_under_autocast_alone():
    torch.manual_seed(0)
    model = BertModel(CONFIG)
    exact = _states(model, in_bf16=False)
    stock = _states(model)
    assert stock.dtype == torch.float32
    assert use_bf16_residual(model, wanted=True) == 5
    dtypes = []
    model.encoder.layer[0].register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    found = _states(model)
    assert found.dtype == torch.float32
    assert dtypes == [torch.bfloat16]
    assert not torch.equal(found, stock)
    assert (found - exact).norm() / exact.norm() < 2**-7  # 8 bits of precision
    assert torch.equal(_states(model, in_bf16=False), exact)


def test_gradients_are_those_of_float32_up_to_rounding():
    torch.manual_seed(0)
    model = BertModel(CONFIG)
    gradients = []
    for wanted, in_bf16 in ((False, False), (True, True)):
        use_bf16_residual(model, wanted)
        model.zero_grad()
        _states(model, in_bf16).float().square().mean().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    exact, found = gradients
    assert torch.cosine_similarity(exact, found, dim=0) > 0.995


def test_copies_have_layer_norms_of_their_own_and_it_can_be_undone():
    model = BertModel(CONFIG)
    names = set(model.state_dict())
    use_bf16_residual(model, wanted=True)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert _states(copied).abs().sum() > 0
    assert set(copied.state_dict()) == names
    assert use_bf16_residual(copied, wanted=False) == 0
    assert not any("forward" in vars(module) for module in copied.modules())
    torch.testing.assert_close(_states(copied), _states(copied, in_bf16=False), atol=0.01, rtol=0)
