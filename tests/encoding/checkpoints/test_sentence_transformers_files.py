"""The files of sentence-transformers in a checkpoint are checked before they are used."""

import json
import logging
import os

import pytest
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier
from docsplit_hf.encoding.checkpoints.sentence_transformers_files import (
    _released_pooling,
    checkpoint_settings,
    load_projection,
)


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("modules.json", '{"0": ', "modules.json of .* is not JSON: .*Download it again"),
        ("modules.json", {"type": "Pooling"}, "modules.json of .* holds a dict instead of a list"),
        ("modules.json", ["Pooling"], "holds 'Pooling' in place of a module"),
        (
            "modules.json",
            [{"type": "sentence_transformers.models.Pooling", "path": "../1_Pooling"}],
            "has its Pooling in '../1_Pooling'",
        ),
        ("1_Pooling/config.json", ["mean"], "1_Pooling/config.json of .* holds a list instead of a dict"),
        ("sentence_bert_config.json", [512], "holds a list instead of a dict"),
        ("sentence_bert_config.json", {"max_seq_length": "512"}, "max_seq_length='512', which is not a length"),
        ("sentence_bert_config.json", {"max_seq_length": -1}, "max_seq_length=-1, which is not a length"),
    ],
)
def test_files_with_wrong_content_are_refused(tmp_path, file, content, message):
    write(tmp_path, file, content)
    with pytest.raises(ValueError, match=message):
        checkpoint_settings(str(tmp_path), None, with_projection=True)


def test_modules_in_an_unsupported_order_are_refused(tmp_path):
    def modules(*kinds):
        content = [
            {"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}"} for i, kind in enumerate(kinds)
        ]
        write(tmp_path, "modules.json", content)
        return checkpoint_settings(str(tmp_path), None, with_projection=True)

    assert modules("Transformer", "Pooling", "Dense", "Dense", "Normalize") == {}
    assert modules("Transformer", "Pooling", "Normalize", "Dense", "Normalize") == {}
    with pytest.raises(ValueError, match="in the order Transformer, Pooling, Dense, Normalize, Dense"):
        modules("Transformer", "Pooling", "Dense", "Normalize", "Dense")


@pytest.mark.parametrize(
    "docsplit, message",
    [
        ({"pooling": "mean", "max_lenght": 64}, "config.docsplit of .* has .max_lenght.: it may have"),
        ({"pooling": "mean", "max_length": "64"}, "config.docsplit of .* has max_length='64', which is not a length"),
        ({"pooling": "mean", "max_length": -3}, "max_length=-3, which is not a length"),
    ],
)
def test_a_configuration_with_wrong_content_is_refused(docsplit, message):
    with pytest.raises(ValueError, match=message):
        checkpoint_settings("any name", BertConfig(docsplit=docsplit))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "2_Dense").mkdir()
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    return tmp_path


def write_config(folder, activation, **more):
    (folder / "2_Dense" / "config.json").write_text(json.dumps({"activation_function": activation, **more}))


def test_a_dense_layer_equals_a_calculation_by_hand(folder):
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


def test_a_pickle_of_tensors_is_read_without_a_safetensors_file(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    torch.manual_seed(0)
    linear = torch.nn.Linear(4, 2)
    vector = torch.ones(1, 4)
    pickled = {f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}
    torch.save(pickled, folder / "2_Dense" / "pytorch_model.bin")
    assert load_projection(str(folder))(vector).equal(linear(vector))
    save_file({"linear.weight": torch.ones(1, 4)}, folder / "2_Dense" / "model.safetensors")
    assert load_projection(str(folder))(vector).item() == 4


@pytest.mark.parametrize("content", ["a class", "a number", "no names", "damaged"])
def test_a_pickle_of_anything_else_is_refused_and_not_executed(folder, content):
    write_config(folder, "torch.nn.modules.linear.Identity")
    file = folder / "2_Dense" / "pytorch_model.bin"
    trace = folder / "executed"
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


def test_missing_weights_are_refused(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    with pytest.raises(OSError, match="has neither model.safetensors nor pytorch_model.bin in '2_Dense'"):
        load_projection(str(folder))


@pytest.mark.parametrize("activation, more, message", [
    ("Mish", {}, "activation 'Mish' in 2_Dense, and only Identity"),
    ("Identity", {"use_residual": True}, r"2_Dense of .* has use_residual, which is not supported"),
])  # fmt: skip
def test_unknown_dense_layers_are_refused(folder, activation, more, message):
    write_config(folder, f"torch.nn.{activation}", **more)
    with pytest.raises(ValueError, match=message):
        load_projection(str(folder))


def test_wrong_weights_are_refused(folder):
    write_config(folder, "torch.nn.modules.linear.Identity")
    for weights in ({"weight": torch.ones(1, 2)}, {"linear.weight": torch.ones(2)}):
        save_file(weights, folder / "2_Dense" / "model.safetensors")
        with pytest.raises(ValueError, match="and not the weights of a dense layer"):
            load_projection(str(folder))


@pytest.mark.parametrize(
    "name, pooling",
    [
        ("facebook/contriever", "mean"),
        ("facebook/mcontriever-msmarco", "mean"),
        ("Contrastive-Tension/BERT-Base-CT", "mean"),
        ("princeton-nlp/unsup-simcse-bert-base-uncased", "cls"),
        ("princeton-nlp/sup-simcse-bert-base-uncased", None),  # it has a head behind the first token
        ("google-bert/bert-base-uncased", None),
    ],
)
def test_released_checkpoints_are_recognized_by_name(name, pooling):
    assert _released_pooling(name, BertConfig(architectures=["BertModel"])) == pooling


def test_a_copy_of_contriever_is_recognized_by_its_class(tiny_config, tokenizer, tmp_path, texts, caplog):
    torch.manual_seed(0)
    BertModel(tiny_config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"BertModel"', '"Contriever"'))
    with caplog.at_level(logging.WARNING):
        encoder = DocumentEncoder.from_pretrained(str(tmp_path))
    assert "states no pooling. It was trained with 'mean'" in caplog.text
    mean = DocumentEncoder.from_pretrained(str(tmp_path), pooling="mean").encode(texts[:3], show_progress=False)
    assert (encoder.encode(texts[:3], show_progress=False) == mean).all()
    assert AutoModelForDocSplit.from_pretrained(str(tmp_path)).config.docsplit["pooling"] == "mean"
    assert KNNClassifier.from_encoder(str(tmp_path), num_labels=2).config.pooling == "mean"
