"""Pipelines with an encoder behind an endpoint: supported methods, and errors for the others."""

import json

import numpy as np
import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import pipeline

from docsplit_hf import EndpointClassifier, KNNDatastore
from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.encoding.backends.endpoint_encoder import EndpointError
from tests.encoding.endpoints import embed, serve

KEY = "sk-secret-of-the-test"
TEXTS = ["a river" + " and" * n for n in range(20)]
LABELS = ["river", "engine"] * 10


@pytest.fixture
def endpoint():
    with serve() as server:
        yield server


@pytest.fixture
def classifier(endpoint, monkeypatch):
    monkeypatch.setenv("TEST_API_KEY", KEY)
    return EndpointClassifier.from_pretrained(f"{endpoint.url}#a-model#key_variable=TEST_API_KEY#max_characters=90")


@pytest.fixture
def pipe(classifier):
    pipe = pipeline("docsplit-knn", model=classifier)
    assert pipe.add_examples(TEXTS, LABELS)[-1] == "19"
    return pipe


def test_an_endpoint_classifier_is_fitted_and_saved_without_the_key(pipe, endpoint, tmp_path, caplog):
    vectors = np.array([embed(text[:90]) for text in TEXTS])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    (answer,) = pipe(TEXTS[3], return_neighbors=20, batch_size=2)
    distances = {n["text"]: n["distance"] for n in answer["neighbors"]}
    expected = ((vectors - vectors[3]) ** 2).sum(1)
    assert [distances[text] for text in TEXTS] == pytest.approx(expected, abs=1e-6)
    pipe.add_documents([f"{text}." for text in TEXTS])
    pipe.fit(show_progress=False)
    answers = pipe(TEXTS[:5], explain=True, reject=0.5)
    assert {"experts", "words"} <= answers[0]["explanation"].keys()

    pipe.save_pretrained(tmp_path)
    saved = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in saved} >= {"config.json", "manifest.json", "README.md"}
    for path in saved:
        assert not [word for word in (KEY, "TEST_API_KEY") if word.encode() in path.read_bytes()]
    seen = len(endpoint.requests)
    again = pipeline("docsplit-knn", model=str(tmp_path), model_kwargs={"key_variable": "TEST_API_KEY"})
    assert again(TEXTS[:5], explain=True, reject=0.5) == answers
    assert f"Texts are sent to {endpoint.url}#a-model#max_characters=90" in caplog.text
    assert len(endpoint.requests) == seen + 2  # the fingerprint, and the texts
    assert {headers["Authorization"] for _, headers, _ in endpoint.requests} == {f"Bearer {KEY}"}
    pipeline("docsplit-knn", model=str(tmp_path))
    assert endpoint.requests[-1][1]["Authorization"] is None  # the folder does not say whose key to send


def test_another_model_behind_the_name_is_refused(pipe, endpoint, tmp_path):
    pipe.save_pretrained(tmp_path)
    other = {"data": [{"index": i, "embedding": [1.0, i, 0, 0]} for i in range(3)]}
    endpoint.script = [{"body": lambda _: other}]
    with pytest.raises(ValueError, match="encoder"):
        pipeline("docsplit-knn", model=str(tmp_path))
    endpoint.script = [{"status": 401, "text": "no key"}]
    with pytest.raises(EndpointError, match="No key was sent: name the environment variable"):
        pipeline("docsplit-knn", model=str(tmp_path))


def test_a_saved_folder_cannot_choose_the_key_that_is_sent(pipe, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET", KEY)
    pipe.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"endpoint": f"{endpoint.url}#m#key_variable=A_SECRET"}))
    seen = len(endpoint.requests)
    with pytest.raises(ValueError, match="names an environment variable to send to"):
        pipeline("docsplit-knn", model=str(tmp_path))
    assert len(endpoint.requests) == seen


def test_a_datastore_is_built_and_a_file_is_classified(classifier, examples, tmp_path):
    datastore = KNNDatastore.build(classifier, None, examples, show_progress=False)
    assert datastore.keys.shape == (len(examples), 4)
    pipe = pipeline("docsplit-knn", model=classifier, datastore=datastore)
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": TEXTS[0]}) + "\n")
    classify_file(pipe, PredictionFiles(tmp_path / "in.jsonl", tmp_path / "out.jsonl"), show_progress=False)
    assert json.loads((tmp_path / "out.jsonl").read_text())["label"] == pipe(TEXTS[0])[0]["label"]


def test_local_options_are_refused_for_an_endpoint(pipe, classifier, endpoint, tmp_path):
    seen = len(endpoint.requests)
    for options in ({"max_length": 9}, {"bf16": True}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}=.* has no effect on .*#max_characters=N"):
            pipe(TEXTS[0], **options)
    for options in ({"long_documents": "passages"}, {"passage_length": 9}, {"truncate_dim": 2}):
        with pytest.raises((ValueError, StrictDataclassError), match="has no effect on"):
            pipeline("docsplit-knn", model=classifier, **options)
    with pytest.raises(ValueError, match="does not report how much it reads: leave out return_read"):
        pipe(TEXTS[0], return_read=True)
    with pytest.raises(ValueError, match="join the two texts of a pair into one"):
        pipe({"text": "a river", "text_pair": "an engine"})
    with pytest.raises(NotImplementedError, match=r"cannot be trained: use KNNClassifier.from_encoder"):
        classifier(input_ids=None)
    assert len(endpoint.requests) == seen
