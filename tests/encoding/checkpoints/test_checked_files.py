"""Damaged and hostile folders are refused with the name of the file, before a model is built."""

import json
import shutil
import time

import pytest
from transformers import pipeline

from docsplit_hf import DocumentEncoder, KNNClassifierPipeline
from docsplit_hf.encoding.checkpoints.checked_files import MOST_LAYERS, check_checkpoint_folder, check_sizes
from docsplit_hf.encoding.checkpoints.checkpoint import (
    DEFAULT_FOLDER,
    DamagedCheckpointError,
    load_tokenizer,
    open_checkpoint,
)

REMEDY = "Download or copy the folder again"


@pytest.fixture
def encoder(tmp_path):
    """A copy of the checkpoint that ships, to be damaged."""
    return shutil.copytree(DEFAULT_FOLDER, tmp_path / "encoder")


def change(path, **settings):
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


OPENERS = {
    "encoder": DocumentEncoder.from_pretrained,
    "pipeline": lambda folder: pipeline("docsplit-knn", model=str(folder), device="cpu"),
    "checkpoint": open_checkpoint,
}


HUGE = {
    "num_hidden_layers": 10**8,
    "hidden_size": 12 * 10**8,
    "vocab_size": 10**9,
    "intermediate_size": 10**8,
    "num_attention_heads": 10**8,
    "max_position_embeddings": 10**9,
}


@pytest.mark.parametrize("name", HUGE)
def test_impossible_sizes_are_refused(name, encoder):
    change(encoder / "config.json", **{name: HUGE[name]})
    with pytest.raises((ValueError, DamagedCheckpointError), match=f"config.json has {name}={HUGE[name]}.*{REMEDY}"):
        check_checkpoint_folder(str(encoder))


@pytest.mark.parametrize("opener", OPENERS)
def test_whatever_opens_a_folder_checks_it_at_once(opener, encoder):
    change(encoder / "config.json", num_hidden_layers=10**8)
    start = time.perf_counter()
    with pytest.raises((ValueError, DamagedCheckpointError), match="config.json has num_hidden_layers=100000000"):
        OPENERS[opener](encoder)
    assert time.perf_counter() - start < 60  # a hundred million layers take hours


def test_more_layers_than_tensors_are_refused(encoder):
    change(encoder / "config.json", num_hidden_layers=MOST_LAYERS)
    with pytest.raises(ValueError, match=r"num_hidden_layers=1000, and the weights are \d+ tensors"):
        open_checkpoint(encoder)


@pytest.mark.parametrize("name", ["num_attention_heads", "hidden_size", "intermediate_size"])
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_of_0_are_refused(name, value, encoder):
    change(encoder / "config.json", **{name: value})
    with pytest.raises(ValueError, match=f"config.json has {name}={value}"):
        open_checkpoint(encoder)


def test_the_sizes_of_an_encoder_within_a_classifier_are_checked():
    config = {"retrieval_dimension": 8, "encoder_config": {"num_hidden_layers": 10**8}}
    with pytest.raises(ValueError, match="here has num_hidden_layers=100000000"):
        check_sizes("here", config)


def test_the_shipped_checkpoint_and_a_name_on_the_hub_pass():
    check_checkpoint_folder(DEFAULT_FOLDER)
    check_checkpoint_folder("nobody/nothing")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {
    "weights cut": ("model.safetensors", cut, "model.safetensors is damaged .*bytes"),
    "weights empty": ("model.safetensors", lambda path: path.write_bytes(b""), "model.safetensors is damaged"),
    "weights of another kind": ("model.safetensors", lambda path: path.write_text("{}"), "model.safetensors is dam"),
    "tokenizer cut": ("tokenizer.json", cut, "tokenizer.json is damaged, it is not JSON"),
    "tokenizer a list": ("tokenizer.json", lambda path: path.write_text("[]"), "tokenizer.json .*holds a list"),
    "tokenizer without tokens": ("tokenizer.json", lambda path: path.write_text("{}"), "tokenizer.json .*'model' is"),
    "tokenizer of another kind": ("tokenizer.json", lambda path: change(path, model={}), "tokenizer.json .* damaged"),
    "tokenizer's settings a list": ("tokenizer_config.json", lambda path: path.write_text("[]"), "tokenizer_config.j"),
    "tokenizer's settings wrong": (
        "tokenizer_config.json",
        lambda path: change(path, padding_side=7),
        "tokenizer_config.json is missing or damaged",
    ),
    "configuration empty": (
        "config.json",
        lambda path: path.write_bytes(b""),
        "config.json is damaged, it is not JSON",
    ),
    "configuration a number": ("config.json", lambda path: path.write_text("1"), "config.json is damaged: it holds a"),
    "architectures a number": (
        "config.json",
        lambda path: change(path, architectures=7),
        "config.json is damaged: 'ar",
    ),
    "settings of ours a number": ("config.json", lambda path: change(path, docsplit=7), "is damaged: .docsplit"),
    "an unknown activation": ("config.json", lambda path: change(path, hidden_act="x"), "config.json is damaged"),
    "another width": ("config.json", lambda path: change(path, hidden_size=12), "config.json is damaged or"),
    "a string for a size": ("config.json", lambda path: change(path, hidden_size="x"), "config.json is damaged"),
}


@pytest.mark.parametrize(("file", "damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_named(file, damage, message, encoder):
    damage(encoder / file)
    with pytest.raises(ValueError, match=f"{message}.*again"):
        DocumentEncoder.from_pretrained(encoder)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_file_of_a_saved_classifier_is_named(file, tmp_path):
    pipe = pipeline("docsplit-knn", device="cpu")
    assert isinstance(pipe, KNNClassifierPipeline)
    pipe.add_examples(["apples and pears", "iron and stone"], ["fruit", "mineral"])
    pipe.save_pretrained(tmp_path)
    cut(tmp_path / file)
    with pytest.raises(DamagedCheckpointError, match=f"{file} is damaged.*{REMEDY}"):
        pipeline("docsplit-knn", model=str(tmp_path), device="cpu")


def test_a_tokenizer_is_loaded_as_transformers_does():
    assert load_tokenizer(str(DEFAULT_FOLDER))("apples")["input_ids"]
