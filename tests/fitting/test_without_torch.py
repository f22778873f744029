"""A classifier is fitted and asked in a process where torch and transformers cannot be imported."""

import json
import subprocess
import sys

import pytest

FIT_AND_ANSWER = """
import importlib.machinery, json, sys

class Finder(importlib.machinery.PathFinder):  # as if torch and transformers were not installed
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        missing = name.split(".")[0] in ("torch", "transformers")
        return None if missing else importlib.machinery.PathFinder.find_spec(name, path, target)

sys.meta_path = [Finder if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]

import numpy as np
from dataclasses import replace
from docsplit_hf.arrays.changes import add_rows, empty_snapshot
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem

rng = np.random.default_rng(0)
labels = np.arange(40) % 2
words = [["apple", "pear", "juice"], ["iron", "stone", "mine"]]
texts = [" ".join([*rng.permutation(words[label]), f"number{i}"]) for i, label in enumerate(labels)]
keys = (3 * np.eye(8)[labels] + rng.standard_normal((40, 8))).astype(np.float32)
empty = empty_snapshot(8, ("fruit", "mineral"))
snapshot = add_rows(empty, keys[:30], labels[:30], texts[:30])
fitted = fit_experts(Problem(snapshot), show_progress=False)
ready = prepare_experts(replace(snapshot, fitted=fitted.to_state()))
answers = score_texts(ready, keys[30:], texts[30:], None).probabilities.argmax(1)
assert not {"torch", "transformers"} & set(sys.modules)
print(json.dumps([answers.tolist(), labels[30:].tolist(), "ensemble" in str(fitted.report)]))
"""


@pytest.mark.slow
def test_embeddings_are_fitted_and_classified_without_torch_and_transformers():
    finished = subprocess.run([sys.executable, "-c", FIT_AND_ANSWER], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    answers, labels, has_report = json.loads(finished.stdout)
    assert answers == labels and has_report
