"""A classifier and its datastore are saved at once, and refused if they are of two saves."""

import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
import torch
from transformers import BertModel, pipeline

from docsplit_hf import KNNClassifier, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.storage.manifest import DatastoreError

from ..classifier.datastore.datastores import everything, fill

ROBUSTNESS = Path(__file__).parents[2] / "benchmarks" / "release" / "robustness.py"


@pytest.fixture
def pipe(make_tiny_config, tokenizer, texts):
    """Makes a pipeline with a head; the weights depend on the seed."""

    def make(seed=0, labels=("river", "engine")):
        torch.manual_seed(seed)
        model = KNNClassifier.around(BertModel(make_tiny_config()), id2label=dict(enumerate(labels)))
        pipe = KNNClassifierPipeline(model=model, tokenizer=tokenizer, device="cpu")
        pipe.add_examples(texts[:20], list(labels) * 10)
        return pipe

    return make


def load(folder):
    return pipeline("docsplit-knn", model=str(folder), device="cpu")


def test_a_file_of_another_save_or_a_missing_one_is_refused(pipe, tmp_path):
    pipe(0).save_pretrained(tmp_path / "old")
    pipe(1).save_pretrained(tmp_path / "new")
    shutil.copy(tmp_path / "new" / "model.safetensors", tmp_path / "old")
    with pytest.raises(DatastoreError, match=r"model\.safetensors is not the file .*save all of it with"):
        load(tmp_path / "old")
    (tmp_path / "new" / "tokenizer_config.json").unlink()
    with pytest.raises(DatastoreError, match=r"tokenizer_config\.json is missing"):
        load(tmp_path / "new")


def test_an_edited_configuration_is_refused(pipe, tmp_path):
    pipe().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"k": 3}))
    with pytest.raises(DatastoreError, match=r"config\.json is not the file that was saved"):
        load(tmp_path)
    model = KNNClassifier.from_pretrained(tmp_path)  # what the error advises
    again = KNNClassifierPipeline(
        model=model, tokenizer=pipe().tokenizer, datastore=KNNDatastore.from_pretrained(tmp_path)
    )
    again.save_pretrained(tmp_path)
    assert load(tmp_path).model.config.k == 3


def test_saving_other_shards_deletes_the_old_ones(pipe, tmp_path, texts):
    pipe(0).save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("model-*"))) > 1
    new = pipe(1)
    new.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("model*.safetensors*")] == ["model.safetensors"]
    new.save_pretrained(tmp_path, max_shard_size="50KB")
    assert not (tmp_path / "model.safetensors").exists()
    assert load(tmp_path)(texts[:3]) == new(texts[:3])
    pipe(0).model.save_pretrained(tmp_path / "old")
    shutil.copy(tmp_path / "old" / "model.safetensors", tmp_path)  # which transformers would read first
    with pytest.raises(DatastoreError, match=r"model\.safetensors was not saved with the datastore"):
        load(tmp_path)


def test_other_files_and_the_card_stay(pipe, tmp_path):
    pipe(0).save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("by hand")
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "model.safetensors").write_text("of a run")
    pipe(1).save_pretrained(tmp_path)
    load(tmp_path)
    assert (tmp_path / "README.md").read_text() == "by hand"
    assert (tmp_path / "checkpoint-3" / "model.safetensors").read_text() == "of a run"


def test_a_datastore_saved_beside_a_classifier_belongs_to_it(pipe, tmp_path, texts):
    first = pipe()
    first.save_pretrained(tmp_path)
    first.add_examples(texts[20:22], ["river", "engine"])
    first.datastore.save_pretrained(tmp_path)
    assert len(load(tmp_path).datastore) == 22


def test_documents_and_fitted_state_are_saved_and_replaced_with_the_classifier(pipe, tmp_path):
    first = pipe()
    before = everything(fill(first.datastore))
    first.save_pretrained(tmp_path)
    assert everything(load(tmp_path).datastore) == before
    for _ in range(2):  # the second save deletes the files of the first classifier
        pipe(1).save_pretrained(tmp_path)
    assert load(tmp_path).datastore.documents is None and len(list((tmp_path / "datastore").iterdir())) == 3


def test_saved_files_are_readable_for_all(pipe, tmp_path):
    mask = os.umask(0o022)
    try:
        filled = pipe()
        fill(filled.datastore)
        filled.save_pretrained(tmp_path)
    finally:
        os.umask(mask)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()} == {0o644}


def test_a_label_with_a_lone_surrogate_is_saved_and_loaded(pipe, tmp_path, texts):
    labels = ("river", "a lone surrogate \ud800")
    pipe(labels=labels).save_pretrained(tmp_path)
    assert load(tmp_path).datastore.label_names == labels
    assert "a lone surrogate ?" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_folder_saved_before_saves_were_one_rename_is_loaded_and_saved_again(tmp_path):
    """Of a BERT of 1,000 weights with examples, documents and fitted experts, and without its code and its card."""
    folder = tmp_path / "folder"
    shutil.copytree(Path(__file__).with_name("saved_before"), folder)
    texts = ["The pear of number 38 lies in the basket.", "The stone of number 39 lies in the river."]
    first = load(folder)
    answers = first(texts, top_k=None)
    scores = [{answer["label"]: answer["score"] for answer in found} for found in answers]
    assert [found["fruit"] for found in scores] == pytest.approx([0.90594, 0.17718], abs=1e-4)
    assert len(first.datastore.documents) == 10 and first.datastore.fitted is not None
    first.save_pretrained(folder)
    again = load(folder)
    assert again(texts, top_k=None) == answers
    again.add_examples(["The pear of number 41 lies in the basket."], ["fruit"])
    again.save_pretrained(folder)
    assert len(load(folder).datastore) == 21


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_kills_limits_and_flipped_bits(run_script):
    printed = run_script(ROBUSTNESS, "--kills=3", "--limits=2", "--flips=12")
    assert printed.count("3 killed while it saved") == 3 and "12 with a flipped bit" in printed
