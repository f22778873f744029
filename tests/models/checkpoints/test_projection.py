"""Tests of the dense layers behind the pooling."""

import json
import os

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


def write_config(folder, activation, **more):
    (folder / "2_Dense" / "config.json").write_text(json.dumps({"activation_function": activation, **more}))


def test_by_hand(folder):
    write_config(folder, "torch.nn.modules.activation.Tanh")
    weights = {"linear.weight": torch.tensor([[1.0, 2.0]]).half(), "linear.bias": torch.tensor([0.5]).half()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    projection = load_projection(str(folder))
    assert projection(torch.tensor([[0.1, 0.2]])).equal(torch.tanh(torch.tensor([[1.0]])))
    assert not any(parameter.requires_grad for parameter in projection.parameters())


class Executed:
    """What a pickle can hold: unpickled in full, it makes a folder."""

    def __init__(self, place):
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)


def test_a_pickle_of_tensors_is_read_where_there_is_no_safetensors_file(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    torch.manual_seed(0)
    linear, vector = torch.nn.Linear(4, 2), torch.ones(1, 4)
    pickled = {f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}
    torch.save(pickled, folder / "2_Dense" / "pytorch_model.bin")
    assert load_projection(str(folder))(vector).equal(linear(vector))
    save_file({"linear.weight": torch.ones(1, 4)}, folder / "2_Dense" / "model.safetensors")
    assert load_projection(str(folder))(vector).item() == 4


@pytest.mark.parametrize("content", ["a class", "a number", "no names", "damaged"])
def test_a_pickle_of_anything_else_is_refused_and_not_executed(folder, content):
    write_config(folder, "torch.nn.modules.linear.Identity")
    file, trace = folder / "2_Dense" / "pytorch_model.bin", folder / "executed"
    weight = torch.ones(1, 2)
    held = {
        "a class": {"linear.weight": weight, "more": Executed(trace)},
        "a number": {"linear.weight": weight, "n": 1},
    }
    torch.save(held.get(content, [weight]), file)
    if content == "damaged":
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(
        ValueError, match=r"2_Dense/pytorch_model.bin of .* tensors.* not read. Ask its author for model"
    ):
        load_projection(str(folder))
    assert not trace.exists()
    if content == "a class":
        torch.load(file, weights_only=False)
        assert trace.exists(), "it does execute where it is trusted"


def test_no_weights_at_all(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    with pytest.raises(OSError, match="'2_Dense', which has neither model.safetensors nor pytorch_model.bin"):
        load_projection(str(folder))


def test_an_activation_that_is_not_known(folder):
    write_config(folder, "torch.nn.modules.activation.Mish")
    with pytest.raises(ValueError, match="activation 'Mish' in 2_Dense, which is none of Identity"):
        load_projection(str(folder))


def test_a_residual_is_not_known(folder):
    write_config(folder, "torch.nn.modules.linear.Identity", use_residual=True)
    save_file({"linear.weight": torch.ones(2, 2)}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(ValueError, match=r"2_Dense what goes in \(use_residual\), which is not known here"):
        load_projection(str(folder))


def test_weights_that_are_none(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    for weights in ({"weight": torch.ones(1, 2)}, {"linear.weight": torch.ones(2)}):
        save_file(weights, folder / "2_Dense" / "model.safetensors")
        with pytest.raises(ValueError, match="and not the weights of a dense layer"):
            load_projection(str(folder))
