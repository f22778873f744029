"""The help of the command ``docsplit``, and that it is quick."""

import importlib.util
import os
import subprocess
import sys

import pandas as pd
import pytest
from transformers import pipeline

from docsplit_hf.apps.cli.commands import COMMANDS, HELP_PAGE, help_of

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


READ_FILES = ("pretrain", "fit", "train", "classify", "evaluate", "embed", "watch")
OF_CLASSIFIERS = ("classify", "audit", "suggest", "export", "watch", "demo", "serve")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_options_of_files_and_of_classifiers_where_they_are_used(command):
    options = {word for word in help_of(command).split() if word.startswith("--")}
    assert ("--ocr" in options) == (command in READ_FILES)
    assert ("--model" in options) == (command in OF_CLASSIFIERS)
    assert ("--model_name_or_path" in options) == (command in ("pretrain", "fit", "train", "embed"))


ANSWERED_AT_ONCE = {
    "help": ("fit --help_all", 0, "--passage_length"),
    "a mistyped command": ("clasify --predict new.csv", 2, "no command 'clasify' (did you mean classify?): docsplit"),
    "a shortened command": ("eval", 2, "no command 'eval' (did you mean evaluate?)"),
    "no command": ("xyzzy", 2, "docsplit: error: there is no command 'xyzzy': docsplit --help lists all."),
    "a typo": ("fit --dataset_nme x.csv", 2, "did you mean --dataset_name?"),
    "no file to learn from": ("fit --dataset_name missing.csv", 2, "There is no file 'missing.csv'"),
    "no column to learn from": ("fit --dataset_name new.csv --text_column title", 2, "There is no column 'title'"),
    "no documents": ("fit --dataset_name new.csv --unlabeled_name missing.txt", 2, "There is no file 'missing.txt'"),
    "no file to answer": ("classify --predict missing.csv", 2, "There is no file 'missing.csv'"),
    "no column to answer": ("classify --predict new.csv --text_column title", 2, "There is no column 'title'"),
    "neither": ("classify --dataset_name missing.csv --predict new.csv", 2, "There is no file 'missing.csv'"),
    "no classifier": ("audit ./missing", 2, "There is no file or folder './missing'"),
    "no texts to embed": ("embed --dataset_name missing.csv", 2, "There is no file 'missing.csv'"),
    "no inbox": ("watch inbox/ sorted/ --model new.csv", 2, "There is no folder 'inbox/'"),
    "an unknown option of evaluate": ("evaluate --modls tfidf", 2, "did you mean --models?"),
    "an unknown option of suggest": ("suggest ./missing --cout 3", 2, "did you mean --count?"),
    "an unknown option of export": ("export ./missing --precison int8", 2, "did you mean --precision?"),
    "an unknown option of demo": ("demo --prot 80", 2, "--prot"),
    "no folder to serve": ("serve ./missing", 1, "docsplit serve: error: There is no"),
    "an option of before": ("undo --ocr", 2, "docsplit undo: error: --ocr was removed: docsplit undo reads no files"),
    "a command of before": ("label", 2, "docsplit: error: docsplit label was removed: docsplit suggest writes"),
}


@pytest.mark.parametrize("line, code, said", ANSWERED_AT_ONCE.values(), ids=ANSWERED_AT_ONCE)
def test_help_typos_and_missing_files_are_answered_without_torch(line, code, said, tmp_path):
    (tmp_path / "without" / "torch").mkdir(parents=True)
    (tmp_path / "without" / "torch" / "__init__.py").write_text("raise RuntimeError('torch was imported')\n")
    (tmp_path / "new.csv").write_text("text,label\nThe river floods.,nature\nA loan of money.,money\n")
    places = {"PYTHONPATH": os.pathsep.join((str(tmp_path / "without"), str(ROOT)))}
    started = [sys.executable, "-m", "docsplit_hf", *line.split()]
    finished = subprocess.run(started, capture_output=True, text=True, cwd=tmp_path, env=os.environ | places)
    assert finished.returncode == code and said in finished.stdout + finished.stderr, finished.stderr


@pytest.mark.slow
def test_classify_opens_a_classifier_that_was_not_exported(tmp_path):
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(["Rivers feed the valley.", "The bank lends money."], ["nature", "money"])
    pipe.save_pretrained(tmp_path / "saved")
    texts = tmp_path / "texts.csv"
    texts.write_text("text\nThe river floods.\nA loan of money.\n")
    answers = tmp_path / "answers.csv"
    words = ["classify", "--model", str(tmp_path / "saved"), "--predict", str(texts), "--use_cpu"]
    words += ["--predict_output", str(answers)]
    subprocess.run([sys.executable, "-m", "docsplit_hf", *words], check=True)
    assert pd.read_csv(answers)["label"].tolist() == ["nature", "money"]
