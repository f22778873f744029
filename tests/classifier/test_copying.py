"""Pickle, copy, multiprocessing, clone and another interpreter: equal answers, and no shared state."""

import copy
import dataclasses
import json
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from transformers import BertModel, pipeline

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier, KNNClassifierConfig, KNNDatastore
from docsplit_hf.encoding.classifier_embedder import make_embedder
from docsplit_hf.encoding.portable.run_encoder import is_packed

from .conftest import labels_of

WAYS = {
    "pickle": lambda given: pickle.loads(pickle.dumps(given)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "clone": lambda given: clone(given, safe=False),
}
QUERIES = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)


def make_datastore(index):
    keys = np.random.default_rng(0).standard_normal((1200, 8))
    datastore = KNNDatastore(
        keys, [i % 3 for i in range(1200)], ["a", "b", "c"], index=index, texts=map(str, range(1200))
    )
    datastore.remove(["7"])
    datastore.add(QUERIES[:1], ["a"], texts=["outside of the index"])
    return datastore


@pytest.fixture(params=["auto", "off"])
def pipe(request, tiny_config, tokenizer, texts):
    torch.manual_seed(0)
    pipe = pipeline("docsplit-knn", model=BertModel(tiny_config), tokenizer=tokenizer, device="cpu")
    pipe.embedder.use_precision(None, packing=request.param)
    pipe.add_examples(texts[:20], ["river" if "river" in text else "other" for text in texts[:20]])
    assert is_packed(pipe.model.encoder) == (request.param == "auto")
    return pipe


def search(datastore):
    neighbors = datastore.search(QUERIES, 9)
    return neighbors.distances.tolist(), neighbors.ids, neighbors.labels.tolist(), neighbors.texts


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("index", ["Flat", "IVF16,Flat", "HNSW16"])
def test_a_copied_datastore_has_the_same_results_and_grows_independently(index, way):
    datastore = make_datastore(index)
    before = search(datastore)
    other = WAYS[way](datastore)
    assert search(other) == before and repr(other) == repr(datastore)
    assert not other.keys.flags.writeable and not other.labels.flags.writeable
    assert datastore.add(QUERIES[1:2], ["b"]) == other.add(QUERIES[2:3], ["c"]) == ["1201"]
    datastore.remove(["3"])
    assert len(other) == 1201 and len(datastore) == 1200
    assert datastore.search(QUERIES[2:3], 1).distances[0, 0] > 0 == other.search(QUERIES[2:3], 1).distances[0, 0]
    other.add(np.random.default_rng(2).standard_normal((1200, 8)), ["c"] * 1200)
    assert (other.snapshot.index is None) == (index == "Flat") and other.snapshot.keys.dtype == "float32"


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "clone"])
def test_a_copied_pipeline_has_the_same_answers_and_learns_independently(pipe, texts, way):
    before = pipe(texts, return_neighbors=2)
    other = WAYS[way](pipe)
    assert other(texts, return_neighbors=2) == before and is_packed(other.model.encoder) == is_packed(
        pipe.model.encoder
    )
    other.add_examples(texts[20:40], ["new"] * 20, allow_new_labels=True)
    assert pipe(texts, return_neighbors=2) == before and other({"text": texts[30]}, k=1)["label"] == "new"


def answers_of(pipe, encoder, model, datastore, texts):
    embeddings = encoder.encode(texts, show_progress=False).tolist()
    logits = make_embedder(model, pipe.tokenizer).embed(texts).logits.tolist()
    return pipe(texts, return_neighbors=2), embeddings, logits, search(datastore)


@pytest.mark.slow
@pytest.mark.parametrize("pipe", ["auto"], indirect=True)
def test_another_process_has_the_same_answers(server, pipe, make_tiny_config, tokenizer, texts):
    torch.manual_seed(0)
    encoder = DocumentEncoder(AutoModelForDocSplit.from_config(make_tiny_config(), mlm_head=False), tokenizer, "mean")
    model = KNNClassifier(KNNClassifierConfig(encoder_config=make_tiny_config(), num_labels=3)).eval()
    datastore = make_datastore("IVF16,Flat")
    expected = answers_of(pipe, encoder, model, datastore, texts[:6])
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        assert pool.apply(answers_of, (pipe, encoder, model, datastore, texts[:6])) == expected


@pytest.mark.parametrize("mlm_head", [True, False])
def test_a_model_for_further_training_is_copied(make_tiny_config, tokenizer, texts, mlm_head):
    torch.manual_seed(0)
    model = AutoModelForDocSplit.from_config(make_tiny_config(), mlm_head=mlm_head).eval()
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is type(model) and again.config.docsplit == model.config.docsplit
    inputs = {name: values for name, values in tokenizer(texts[:1], return_tensors="pt").items() if "type" not in name}
    torch.testing.assert_close(again(**inputs).embeddings, model(**inputs).embeddings, rtol=0, atol=0)


SCRIPT = """
import json, sys
import docsplit_hf, transformers
pipe = transformers.pipeline("docsplit-knn", model=sys.argv[1], device="cpu")
texts = json.loads(sys.argv[2])
pipe.measure_drift(texts, texts[:4]).to_json(sys.argv[3] + "/report.json")
pipe.audit(show_progress=False).to_json(sys.argv[3] + "/audit.json")
answers = pipe(texts, top_k=None, explain=True, return_neighbors=2, return_documents=2)
print(json.dumps([answers, pipe(texts, reject=0.5, return_novelty=True), pipe.suggest(3)]))
"""


@pytest.fixture
def fitted(untrained, texts):
    labels = labels_of(texts)
    untrained.add_examples([*texts[:14], texts[0]], [*labels[:14], labels[0]], allow_duplicates=True)
    untrained.add_documents(texts[14:36])
    untrained.fit(show_progress=False)
    untrained.suggest(2)
    return untrained


@pytest.mark.slow
def test_another_interpreter_has_the_same_results_to_the_bit(fitted, texts, tmp_path, run_script):
    fitted.add_examples([texts[40]], ["a new one"])
    fitted.save_pretrained(tmp_path / "saved")
    new = [*texts[36:], "Zebras sleep under quantum lamps."]
    fitted.measure_drift(new, new[:4]).to_json(tmp_path / "expected.json")
    audit = fitted.audit(show_progress=False)
    answers = fitted(new, top_k=None, explain=True, return_neighbors=2, return_documents=2)
    expected = [answers, fitted(new, reject=0.5, return_novelty=True), fitted.suggest(3)]
    (tmp_path / "script.py").write_text(SCRIPT)
    printed = run_script(tmp_path / "script.py", tmp_path / "saved", json.dumps(new), tmp_path)
    assert json.loads(printed.splitlines()[-1]) == expected
    assert (tmp_path / "report.json").read_text() == (tmp_path / "expected.json").read_text()
    assert json.loads((tmp_path / "audit.json").read_text()) == dataclasses.asdict(audit)
