"""A classifier that was exported answers as its pipeline does, without torch and transformers."""

import json
import subprocess
import sys

import numpy as np
import pytest

from docsplit_hf import Classifier
from docsplit_hf.classifier.answering import NeighborVote
from docsplit_hf.encoding.exported import embedder as exported_embedder
from docsplit_hf.encoding.exported.description import DESCRIPTION, FOLDER, GRAPH
from docsplit_hf.encoding.exported.export import export_classifier
from docsplit_hf.encoding.portable.configuration_knn_classifier import KNNClassifierConfig

from ..documents import write_pdf

ANSWER = """
import importlib.machinery, json, sys
from pathlib import Path

class Finder(importlib.machinery.PathFinder):  # as if torch and transformers were not installed
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.split(".")[0] in ("torch", "transformers")
        return None if missing else importlib.machinery.PathFinder.find_spec(name, path, target)

sys.meta_path = [Finder if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]

from docsplit_hf import Classifier

folder, text, file = sys.argv[1:]
classify = Classifier(folder)
answers = [classify(text, explain=True)[0], classify([text], reject=0.4)[0], classify(Path(file))[0]]
assert not {"torch", "transformers"} & set(sys.modules)
print(json.dumps(answers))
"""


def assert_close(found, expected):
    """Equal answers, but for rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-5)
    else:
        assert found == expected


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of this module's own, since what a user exported is remembered there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def fitted(make_fitted):
    return make_fitted(30, 40)


@pytest.fixture(scope="module")
def folder(fitted, cache, tmp_path_factory):
    saved = tmp_path_factory.mktemp("saved")
    fitted.save_pretrained(saved)
    export_classifier(fitted.embedder, saved)
    return saved


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_k": None},
        {"explain": True, "return_neighbors": 2, "return_novelty": True, "return_read": True},
        {"reject": 0.4},
        {"labels_at": 0.6},
        {"method": "knn", "k": 3},
    ],
)
def test_answers_are_the_pipelines(fitted, folder, texts, options):
    given = [*texts[38:], "The river is long. " * 60, ""]
    assert_close(Classifier(folder)(given, **options), fitted(given, **options))
    assert_close(Classifier(folder)(given[0], **options), fitted(given[0], **options))


@pytest.mark.parametrize("long_documents", ["first", "head_tail", "average", "passages"])
def test_long_texts_are_read_in_each_way(fitted, cache, texts, tmp_path, long_documents):
    fitted.model.config.long_documents = long_documents
    export = export_classifier
    fitted.save_pretrained(tmp_path)
    export(fitted.embedder, tmp_path)
    given = [texts[0] * 6, texts[1]]
    found = exported_embedder.ExportedEmbedder(tmp_path).embed(given)
    expected = fitted.embedder.embed(given)
    fitted.model.config.long_documents = "whole"
    np.testing.assert_allclose(found.retrieval_embeddings, expected.retrieval_embeddings, atol=1e-5)
    np.testing.assert_allclose(found.read_fraction, expected.read_fraction)
    if long_documents == "passages":
        np.testing.assert_array_equal(found.passages.counts, expected.passages.counts)
        np.testing.assert_array_equal(found.passages.spans, expected.passages.spans)


def test_a_trained_head_is_exported_and_int8_is_close(pipe, cache, texts, tmp_path):
    pipe.save_pretrained(tmp_path)
    for precision, tolerance in (("float32", 1e-5), ("int8", 0.1)):
        export_classifier(pipe.embedder, tmp_path, precision)
        found = Classifier(tmp_path)(texts[:8], top_k=None)
        for one, other in zip(found, pipe(texts[:8], top_k=None), strict=True):
            scores = {label["label"]: label["score"] for label in one}
            assert scores == pytest.approx({label["label"]: label["score"] for label in other}, abs=tolerance)


@pytest.mark.slow
def test_it_answers_where_torch_and_transformers_cannot_be_imported(fitted, folder, texts, tmp_path, monkeypatch):
    write_pdf(tmp_path / "a.pdf", [texts[40]])
    monkeypatch.setenv("HF_HOME", exported_embedder.trusted_exports().parent.parent.as_posix())
    command = [sys.executable, "-c", ANSWER, folder, texts[40], tmp_path / "a.pdf"]
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    explained, rejected, of_file = json.loads(finished.stdout)
    assert_close(explained, fitted(texts[40], explain=True)[0])
    assert_close(rejected, fitted([texts[40]], reject=0.4)[0])
    assert_close(of_file, fitted(tmp_path / "a.pdf")[0])


def test_graphs_of_others_and_changed_ones_are_refused(fitted, cache, tmp_path, monkeypatch):
    fitted.save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="run docsplit export"):
        Classifier(tmp_path)
    export_classifier(fitted.embedder, tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "other"))
    with pytest.raises(ValueError, match="exported by somebody else.*trust=True"):
        Classifier(tmp_path)
    assert Classifier(tmp_path, trust=True)("a river")
    graph = tmp_path / FOLDER / GRAPH
    content = graph.read_bytes()
    graph.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="is not the file that was exported"):
        Classifier(tmp_path, trust=True)
    described = json.loads((tmp_path / FOLDER / DESCRIPTION).read_text())
    for change, said in (({"saved_with": {}}, "another encoder than was exported"), ({"version": 0}, "of version 0")):
        (tmp_path / FOLDER / DESCRIPTION).write_text(json.dumps(described | change))
        with pytest.raises(ValueError, match=said):
            Classifier(tmp_path, trust=True)


def test_missing_folders_and_libraries_are_named(folder, tmp_path, monkeypatch):
    (tmp_path / "contracts").mkdir()
    with pytest.raises(FileNotFoundError, match="Did you mean .*contracts"):
        Classifier(tmp_path / "contrats")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs onnxruntime: pip install -e .*onnx"):
        Classifier(folder)


def test_what_an_export_fixed_cannot_be_chosen(folder):
    classify = Classifier(folder)
    with pytest.raises(TypeError, match="max_length was fixed when the classifier was exported"):
        classify("a", max_length=8)
    with pytest.raises(ValueError, match="reads single texts"):
        classify([{"text": "a", "text_pair": "b"}])
    assert classify([]) == [] and set(classify.label_names) == {"river", "engine"}


def test_the_vote_without_a_fit_has_the_defaults_of_the_configuration():
    assert NeighborVote() == tuple(
        getattr(KNNClassifierConfig, name) for name in ("k", "knn_temperature", "knn_weight")
    )
