"""A classifier that was exported answers as its pipeline does, without torch and transformers."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.served import free_port
from docsplit_hf import ExportedClassifier
from docsplit_hf.arrays.row_table import TextTable
from docsplit_hf.classifier.answering import NeighborVote
from docsplit_hf.classifier.exported_classifier import open_exported
from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.content_hash import cache_folder
from docsplit_hf.encoding.exported import embedder as exported_embedder
from docsplit_hf.encoding.exported.embedder import DESCRIPTION, GRAPH
from docsplit_hf.encoding.exported.export import export_classifier
from docsplit_hf.encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from docsplit_hf.storage.classifier_folder import EXPORTED

from ..documents import write_pdf

FIGURES = re.compile(r"\d+\.\d")
LIGHT = Path(__file__).parents[1] / "end_to_end" / "light.py"


def assert_close(found, expected):
    """Equal answers, but for rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if name == "summary":  # its figures are those of the experts, which are compared, too
                assert FIGURES.sub("", found[name]) == FIGURES.sub("", value)
            else:
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
    assert_close(ExportedClassifier(folder)(given, **options), fitted(given, **options))
    assert_close(ExportedClassifier(folder)(given[0], **options), fitted(given[0], **options))


def test_other_users_read_the_files_as_the_umask_allows(folder):
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "exported").iterdir()}
    assert set(modes.values()) == {(folder / "config.json").stat().st_mode & 0o777}, modes


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
        found = ExportedClassifier(tmp_path)(texts[:8], top_k=None)
        for one, other in zip(found, pipe(texts[:8], top_k=None), strict=True):
            scores = {label["label"]: label["score"] for label in one}
            assert scores == pytest.approx({label["label"]: label["score"] for label in other}, abs=tolerance)


@pytest.mark.slow
def test_it_answers_where_nothing_large_can_be_imported(fitted, folder, texts, tmp_path, monkeypatch):
    text = texts[40]
    files = tmp_path / "files"
    files.mkdir()
    write_pdf(files / "a.pdf", [text])
    monkeypatch.setenv("HF_HOME", cache_folder("trusted_exports").parent.parent.as_posix())
    command = [sys.executable, LIGHT, folder, text, files, free_port()]
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    explained, rejected, of_file, served, of_table = json.loads(finished.stdout)
    assert_close(explained, fitted(text, explain=True, return_neighbors=1)[0])
    assert_close(rejected, fitted([text], reject=0.4)[0])
    assert_close(of_file, fitted(files)[0])
    assert_close(served, fitted(text, explain=True)[0])
    assert_close({name: of_table[name] for name in ("label", "score")}, fitted(text)[0])


@pytest.mark.parametrize("options", [{}, {"reject": 0.4, "explain": True}, {"top_k": 2}])
def test_files_are_classified_as_by_the_pipeline(fitted, folder, texts, tmp_path, options):
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in texts[36:]) + '""\n')
    rows = []
    for number, classifier in enumerate((fitted, ExportedClassifier(folder))):
        files = PredictionFiles(tmp_path / "texts.csv", tmp_path / f"{number}.jsonl")
        outcome = classify_file(classifier, files, show_progress=False, **options)
        assert outcome.rows == len(texts) - 35 and outcome.without_text == 1
        rows.append([json.loads(line) for line in files.target.read_text().splitlines()])
    assert_close(rows[1], rows[0])


def test_pairs_are_read_as_by_the_pipeline(make_fitted, cache, texts, tmp_path):
    pipe = make_fitted(30, 40)
    pipe.add_examples([{"text": texts[0], "text_pair": texts[1]}], ["river"])
    pipe.save_pretrained(tmp_path)
    export_classifier(pipe.embedder, tmp_path)
    given = [{"text": texts[38], "text_pair": texts[39] * 20}, {"text": texts[40], "text_pair": ""}, texts[41]]
    classify = ExportedClassifier(tmp_path)
    assert_close(classify(given, return_read=True), pipe(given, return_read=True))


def test_texts_are_read_from_arrays_until_the_examples_change(make_fitted, cache, texts, tmp_path, monkeypatch):
    pipe = make_fitted(30, 40)
    pipe.save_pretrained(tmp_path)
    export_classifier(pipe.embedder, tmp_path)
    before = ExportedClassifier(tmp_path)
    assert isinstance(before.datastore.snapshot.rows, TextTable)
    assert len(before.datastore) == 30 and before.datastore.multi_label is False
    pipe.add_examples([texts[38]], ["engine"])
    pipe.datastore.save_pretrained(tmp_path)
    after = ExportedClassifier(tmp_path)
    assert not isinstance(after.datastore.snapshot.rows, TextTable)
    assert_close(after(texts[38], return_neighbors=1), pipe(texts[38], return_neighbors=1))
    assert before.datastore.content_sha256 != after.datastore.content_sha256
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyarrow" else find_spec(name))
    with pytest.raises(ValueError, match="was changed since it was exported.*pyarrow.*docsplit export .* again"):
        ExportedClassifier(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    assert open_exported(tmp_path) is None  # nobody trusts it there
    with pytest.raises(ValueError, match="exported by somebody else"):
        monkeypatch.setattr("docsplit_hf.classifier.exported_classifier.is_full_installation", lambda: False)
        open_exported(tmp_path)


def test_graphs_of_others_and_changed_ones_are_refused(fitted, cache, tmp_path, monkeypatch):
    fitted.save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="run docsplit export"):
        ExportedClassifier(tmp_path)
    export_classifier(fitted.embedder, tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "other"))
    with pytest.raises(ValueError, match="exported by somebody else.*trust=True"):
        ExportedClassifier(tmp_path)
    assert ExportedClassifier(tmp_path, trust=True)("a river")
    graph = tmp_path / EXPORTED / GRAPH
    content = graph.read_bytes()
    graph.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="is not the file that was exported"):
        ExportedClassifier(tmp_path, trust=True)
    described = json.loads((tmp_path / EXPORTED / DESCRIPTION).read_text())
    for change, said in (({"saved_with": {}}, "another encoder than was exported"), ({"version": 0}, "of version 0")):
        (tmp_path / EXPORTED / DESCRIPTION).write_text(json.dumps(described | change))
        with pytest.raises(ValueError, match=said):
            ExportedClassifier(tmp_path, trust=True)


def test_missing_folders_and_libraries_are_named(folder, tmp_path, monkeypatch):
    (tmp_path / "contracts").mkdir()
    with pytest.raises(FileNotFoundError, match="Did you mean .*contracts"):
        ExportedClassifier(tmp_path / "contrats")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs onnxruntime: pip install -e .*onnx"):
        ExportedClassifier(folder)


def test_options_of_reading_are_the_pipelines(fitted, folder, texts):
    classify = ExportedClassifier(folder)
    given = [texts[38] * 5, texts[39]]
    for options in ({"max_length": 8}, {"max_passages": 1}, {"batch_size": 1}):
        assert_close(classify(given, return_read=True, **options), fitted(given, return_read=True, **options))
    with pytest.raises(ValueError, match="bf16 is for torch, and this model was exported in float32"):
        classify("a", bf16=True)
    with pytest.raises(ValueError, match="max_length=100000 is more than the .* of the export"):
        classify("a", max_length=100_000)
    assert classify([]) == [] and set(classify.label_names) == {"river", "engine"}


def test_the_vote_without_a_fit_has_the_defaults_of_the_configuration():
    assert NeighborVote() == tuple(
        getattr(KNNClassifierConfig, name) for name in ("k", "knn_temperature", "knn_weight")
    )
