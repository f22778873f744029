"""The help of the command ``docsplit``, and that it is quick."""

import importlib.util
import subprocess
import sys

import pandas as pd
import pytest
from transformers import pipeline

from docsplit_hf.apps.cli.commands import COMMANDS, HELP_PAGE

from ...commands import ROOT


def test_the_help_page_matches_the_parsers():
    file = ROOT / "docs" / "command_line.py"
    made = importlib.util.module_from_spec(specification := importlib.util.spec_from_file_location("made", file))
    specification.loader.exec_module(made)
    page = HELP_PAGE.read_text(encoding="utf-8")
    assert page == made.make_page(), "after a change of options: python docs/command_line.py"
    assert "..." not in page.partition("## docsplit demo")[0], "a sentence is cut"


@pytest.mark.parametrize("command", [*COMMANDS, None])
def test_help_imports_neither_torch_nor_transformers(command):
    started = [sys.executable, "-X", "importtime", "-m", "docsplit_hf", *filter(None, [command]), "--help"]
    finished = subprocess.run(started, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    assert f"usage: docsplit {command or 'COMMAND'} " in finished.stdout
    imported = {line.rpartition("|")[2].strip() for line in finished.stderr.splitlines()}
    assert "docsplit_hf" in imported and not {"torch", "transformers", "numpy"} & imported


@pytest.mark.slow
def test_classify_opens_a_classifier_that_was_not_exported(tmp_path):
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(["Rivers feed the valley.", "The bank lends money."], ["nature", "money"])
    pipe.save_pretrained(tmp_path / "saved")
    texts = tmp_path / "texts.csv"
    texts.write_text("text\nThe river floods.\nA loan of money.\n")
    answers = tmp_path / "answers.csv"
    words = ["classify", "--model_name_or_path", str(tmp_path / "saved"), "--predict", str(texts), "--use_cpu"]
    words += ["--predict_output", str(answers)]
    subprocess.run([sys.executable, "-m", "docsplit_hf", *words], check=True)
    assert pd.read_csv(answers)["label"].tolist() == ["nature", "money"]
