"""A classifier saved with its code gives the same answers in an environment without docsplit_hf."""

import json
import subprocess

import pytest
from transformers import pipeline

from docsplit_hf.self_contained.save_code import ROOT
from tests.classifier.conftest import labels_of
from tests.environments import without_docsplit_hf

OPTIONS = {"head": {"return_neighbors": 3}, "encoder": {"return_neighbors": 3}, "fitted": {"explain": True}}

CHILD = """
import importlib.util, json, sys
assert importlib.util.find_spec("docsplit_hf") is None
from transformers import pipeline

folder, texts, options = json.loads(sys.argv[1])
answers = {}
for name, given in options.items():
    pipe = pipeline(model=f"{folder}/{name}", trust_remote_code=True, device="cpu")
    answers[name] = pipe(texts, top_k=None, **given)
assert "docsplit_hf" in sys.modules and sys.modules["docsplit_hf"].__file__.startswith(folder)
pipe.add_examples(["a new text"], ["river"])
pipe.save_pretrained(f"{folder}/grown")
sys.path.insert(0, f"{folder}/fitted")
from handler import EndpointHandler
request = {"inputs": texts[:2], "parameters": {"top_k": 1}}
answers["handler"] = EndpointHandler(f"{folder}/fitted")(json.loads(json.dumps(request)))
print(json.dumps(answers))
"""


def nearly(answers):
    """Answers as numbers to compare within rounding, and all else as it is."""
    if isinstance(answers, dict):
        return {name: nearly(value) for name, value in answers.items()}
    if isinstance(answers, list):
        return [nearly(value) for value in answers]
    return pytest.approx(answers, abs=1e-5) if isinstance(answers, float) else answers


@pytest.mark.slow
def test_answers_are_the_same_without_docsplit_hf(pipe, untrained, texts, tmp_path):
    untrained.add_examples(texts[:24], labels_of(texts[:24]))
    pipe.save_pretrained(tmp_path / "head", self_contained=True)
    untrained.save_pretrained(tmp_path / "encoder", self_contained=True)
    expected = {"head": pipe(texts[24:], top_k=None, return_neighbors=3)}
    expected["encoder"] = untrained(texts[24:], top_k=None, return_neighbors=3)
    untrained.add_documents(texts[24:])
    untrained.fit(show_progress=False)
    untrained.save_pretrained(tmp_path / "fitted", self_contained=True)
    expected["fitted"] = untrained(texts[24:], top_k=None, explain=True)
    expected["handler"] = untrained(texts[24:26], top_k=1)

    python, variables = without_docsplit_hf(tmp_path / "environment")
    variables |= {"HF_HOME": str(tmp_path / "home")}
    argument = json.dumps([str(tmp_path), texts[24:], OPTIONS])
    command = [python, "-c", CHILD, argument]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=variables)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert json.loads(finished.stdout.splitlines()[-1]) == nearly(expected)
    grown = pipeline("docsplit-knn", model=str(tmp_path / "grown"), device="cpu")
    assert len(grown.datastore) == 25 and not (tmp_path / "grown" / "handler.py").exists()


def test_the_package_is_copied_and_removed_again(pipe, texts, tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    pipe.save_pretrained(tmp_path, self_contained=True)
    for file in (tmp_path / "docsplit_hf").rglob("*.py"):
        assert file.read_bytes() == (ROOT / file.relative_to(tmp_path / "docsplit_hf")).read_bytes()
    assert "faiss-cpu" in (tmp_path / "requirements.txt").read_text()
    assert "Apache License" in (tmp_path / "docsplit_hf" / "LICENSE").read_text()
    assert "trust_remote_code=True" in (tmp_path / "README.md").read_text()
    with pytest.raises(ValueError, match="trust_remote_code=True"):  # which is why it is not the default
        pipeline("docsplit-knn", model=str(tmp_path))
    again = pipeline(model=str(tmp_path), trust_remote_code=True, device="cpu")
    assert type(again) is type(pipe) and again(texts[0]) == pipe(texts[0])
    again.save_pretrained(tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert "notes.md" in left and "modeling_knn_classifier.py" in left
    assert not left & {"docsplit_knn_pipeline.py", "handler.py", "requirements.txt", "pipeline.py", "LICENSE"}
    assert "custom_pipelines" not in (tmp_path / "config.json").read_text()


def test_a_folder_with_another_package_of_that_name_is_refused(pipe, tmp_path):
    """For example a clone of docsplit_hf: the next save would delete it."""
    (tmp_path / "docsplit_hf").mkdir()
    with pytest.raises(ValueError, match="already has a folder docsplit_hf"):
        pipe.save_pretrained(tmp_path, self_contained=True)
    pipe.save_pretrained(tmp_path)
    assert (tmp_path / "docsplit_hf").is_dir()
