"""ServedFolder: a state has the encoder and the version of one save, and nothing is left of earlier ones."""

import gc
import weakref

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertModel, pipeline

from docsplit_hf.apps.server import states
from docsplit_hf.apps.server.served_folders import ServedFolder
from docsplit_hf.apps.server.states import Encoders, version_on_disk
from docsplit_hf.content_hash import sha256_of_file

from .conftest import labels_of

WEIGHT = "encoder.layer.0.output.dense.weight"


@pytest.fixture
def save_classifier(make_tiny_config, tokenizer, texts):
    """Function that saves a classifier with other weights, by a seed."""

    def save(folder, seed):
        torch.manual_seed(seed)
        pipe = pipeline("docsplit-knn", model=BertModel(make_tiny_config()), tokenizer=tokenizer, device="cpu")
        pipe.add_examples(texts[:6], labels_of(texts[:6]))
        pipe.save_pretrained(folder)

    return save


def weights_of(state):
    return state.pipe.model.encoder.state_dict()[WEIGHT]


def test_a_save_while_a_folder_is_opened_mixes_no_encoder_and_no_version(save_classifier, tmp_path, monkeypatch):
    folder = tmp_path / "served"
    first = tmp_path / "first"
    save_classifier(folder, seed=1)
    save_classifier(first, seed=1)
    asked = []

    def save_then_ask(folder):
        asked.append(folder)
        if len(asked) == 1:  # the weights have been read, the version has not
            save_classifier(folder, seed=2)
        return version_on_disk(folder)

    monkeypatch.setattr(states, "version_on_disk", save_then_ask)
    encoders = Encoders()
    served = encoders.open(folder)
    assert len(asked) == 2
    assert served.version == version_on_disk(folder)
    assert served.weights == (sha256_of_file(folder / "model.safetensors"),)
    saved = load_file(folder / "model.safetensors")
    assert torch.equal(weights_of(served), saved[f"encoder.{WEIGHT}"])
    assert not torch.equal(weights_of(encoders.open(first)), weights_of(served))


def test_encoders_of_replaced_folders_are_forgotten(save_classifier, tmp_path):
    encoders = Encoders()
    for name, seed in (("served", 0), ("other", 0)):
        save_classifier(tmp_path / name, seed)
    classifier = ServedFolder("served", tmp_path / "served", encoders)
    other = ServedFolder("other", tmp_path / "other", encoders)
    assert classifier.state.pipe.model.encoder is other.state.pipe.model.encoder
    seen = []
    for seed in (1, 2, 3):
        save_classifier(tmp_path / "served", seed)
        classifier.reload_if_replaced()
        seen.append(weakref.ref(classifier.state.pipe.model.encoder))
    gc.collect()
    assert [encoder() is not None for encoder in seen] == [False, False, True]
