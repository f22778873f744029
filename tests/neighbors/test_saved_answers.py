"""What a saved classifier says in a fresh interpreter: the same to the bit."""

import dataclasses
import json
import subprocess
import sys

import pytest

from .conftest import labels_of

SCRIPT = """
import json, sys
import docsplit_hf, transformers
pipe = transformers.pipeline("docsplit-knn", model=sys.argv[1], device="cpu")
texts = json.loads(sys.argv[2])
pipe.report(texts, texts[:4]).to_json(sys.argv[3] + "/report.json")
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


def test_a_fresh_interpreter_says_the_same_to_the_bit(fitted, texts, tmp_path):
    fitted.add_examples([texts[40]], ["a new one"])
    fitted.save_pretrained(tmp_path / "saved")
    new = [*texts[36:], "Zebras sleep under quantum lamps."]
    options = {"top_k": None, "explain": True, "return_neighbors": 2, "return_documents": 2}
    fitted.report(new, new[:4]).to_json(tmp_path / "expected.json")
    audit = fitted.audit(show_progress=False)
    expected = [fitted(new, **options), fitted(new, reject=0.5, return_novelty=True), fitted.suggest(3)]
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "saved"), json.dumps(new), str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed.splitlines()[-1]) == expected
    assert (tmp_path / "report.json").read_text() == (tmp_path / "expected.json").read_text()
    assert json.loads((tmp_path / "audit.json").read_text()) == dataclasses.asdict(audit)
