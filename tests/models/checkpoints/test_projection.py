"""Tests of the dense layers behind the pooling."""

import json

import pytest
import torch
from safetensors.torch import save_file

from docsplit_hf.models.checkpoints.projection import load_projection


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "2_Dense").mkdir()
    modules = [{"path": "", "type": "models.Transformer"}, {"path": "2_Dense", "type": "models.Dense"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    return tmp_path


def write_config(folder, activation):
    (folder / "2_Dense" / "config.json").write_text(json.dumps({"activation_function": activation}))


def test_by_hand(folder):
    write_config(folder, "torch.nn.modules.activation.Tanh")
    weights = {"linear.weight": torch.tensor([[1.0, 2.0]]).half(), "linear.bias": torch.tensor([0.5]).half()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    projection = load_projection(str(folder))
    assert projection(torch.tensor([[0.1, 0.2]])).equal(torch.tanh(torch.tensor([[1.0]])))
    assert not any(parameter.requires_grad for parameter in projection.parameters())


def test_a_pickle_is_not_read(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    torch.save({"linear.weight": torch.ones(1, 2)}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(OSError, match="has no model.safetensors. Pickles .* are not read here: load it once"):
        load_projection(str(folder))


def test_an_activation_that_is_not_known(folder):
    write_config(folder, "torch.nn.modules.activation.Mish")
    with pytest.raises(ValueError, match="activation 'Mish' in 2_Dense, which is none of Identity"):
        load_projection(str(folder))


def test_weights_that_are_none(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    for weights in ({"weight": torch.ones(1, 2)}, {"linear.weight": torch.ones(2)}):
        save_file(weights, folder / "2_Dense" / "model.safetensors")
        with pytest.raises(ValueError, match="and not the weights of a dense layer"):
            load_projection(str(folder))
