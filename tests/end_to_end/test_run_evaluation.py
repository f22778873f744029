import json
import os
import runpy
import signal
import subprocess
import sys
import time

import pytest
import torch
from transformers import AutoModelForMaskedLM

from docsplit_hf import DocumentEncoder

from .conftest import ROOT

SCRIPT = ROOT / "examples" / "run_evaluation.py"
OPTIONS = [
    "--protocol", "full", "few_shot", "curve", "half_documents", "--probe=logistic", "--repeats=4", "--seeds=2",
    "--shots=3", "--curve_shots", "1", "2", "3", "--max_length=64",
]  # fmt: skip
RECORDS = (
    2 * 2 * (2 + 3 * 4 + 2)
)  # systems, tasks, and the records of full, the curve (few-shot in it) and half-documents


@pytest.fixture(scope="module")
def labelled(workshop, texts):
    """Two files of labelled texts, as a user has them."""
    files = {"second": 2, "third": 3}
    for name, step in files.items():
        lines = [f'"{text}",{"no" if number % step else "yes"}\n' for number, text in enumerate(texts)]
        (workshop / f"{name}.csv").write_text("text,label\n" + "".join(lines))
    return [str(workshop / f"{name}.csv") for name in files]


@pytest.fixture
def command(workshop, labelled):
    def command(folder, *options):
        models = ["--models", str(workshop / "tiny"), "tfidf"]
        return [str(SCRIPT), *models, "--tasks", *labelled, f"--output_dir={folder}", *OPTIONS, *options]

    return command


@pytest.fixture
def evaluate(command, monkeypatch, capsys):
    """Run the example script in this process; gives what it printed."""

    def evaluate(folder, *options):
        monkeypatch.setattr(sys, "argv", command(folder, *options))
        monkeypatch.syspath_prepend(SCRIPT.parent)
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return capsys.readouterr().out

    return evaluate


def numbers(folder):
    content = json.loads((folder / "results.json").read_text())
    names = ("system", "task", "protocol", "settings", "seed", "metrics")
    return sorted(json.dumps([record[name] for name in names]) for record in content["records"])


def test_a_killed_run_goes_on_where_it_was_and_the_same_command_computes_nothing(
    command, evaluate, tmp_path, monkeypatch
):
    results = tmp_path / "killed" / "results.json"
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen([sys.executable, *command(tmp_path / "killed")], stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while not (results.exists() and len(json.loads(results.read_text())["records"]) >= 3):
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()[-3000:]
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = json.loads(results.read_text())["records"]
    assert 3 <= len(done) < RECORDS

    printed = evaluate(tmp_path / "killed")
    assert f"{RECORDS} records, {RECORDS - len(done)} of them measured now" in printed
    assert json.loads(results.read_text())["records"][: len(done)] == done

    evaluate(tmp_path / "whole")
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")

    before = {file.name: file.read_bytes() for file in (tmp_path / "whole").iterdir() if file.is_file()}
    monkeypatch.setattr("docsplit_hf.experiments.runner.measure", lambda *_: 1 / 0)
    assert f"{RECORDS} records, 0 of them measured now" in evaluate(tmp_path / "whole")
    assert {file.name: file.read_bytes() for file in (tmp_path / "whole").iterdir() if file.is_file()} == before
    assert set(before) == {
        "results.json", "results.md", "few_shot.png", "few_shot.svg", "few_shot_curve.png", "few_shot_curve.svg",
    }  # fmt: skip


def test_embeddings_are_kept_apart_from_the_results_and_a_changed_length_is_embedded_anew(
    evaluate, tmp_path, monkeypatch
):
    evaluate(tmp_path, "--no_figures")
    (tmp_path / "results.json").unlink()
    first = (tmp_path / "results.md").read_text()
    with monkeypatch.context() as patched:
        patched.setattr(DocumentEncoder, "_embed", _only_fixed_texts(DocumentEncoder._embed))
        evaluate(tmp_path, "--no_figures")
    tables = [text.partition("## Full")[2] for text in (first, (tmp_path / "results.md").read_text())]
    assert tables[0] == tables[1] != ""
    printed = evaluate(tmp_path, "--no_figures", "--max_length=16")
    assert f"{RECORDS} records, {RECORDS} of them measured now" in printed


def _only_fixed_texts(real):
    """The fingerprint may embed a few texts; a task has more."""

    def embed(self, pieces, *rest):
        assert len(pieces) < 8, "embeddings were not served from the cache"
        return real(self, pieces, *rest)

    return embed


def test_the_report_and_the_last_screen(evaluate, tmp_path):
    printed = evaluate(tmp_path)
    assert "Full classification" in printed and "| tiny |" in printed and "results.md" in printed
    report = (tmp_path / "results.md").read_text()
    for part in (
        "## Full classification", "## Few-shot classification by examples per class", "## Half-document retrieval",
        "python " + str(SCRIPT), "Seeds: 0, 1.", "![few_shot_curve.png](few_shot_curve.png)", "| third | texts with",
    ):  # fmt: skip
        assert part in report, part


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (["--protocol", "fewshot"], ValueError, "no protocol 'fewshot'. Did you mean 'few_shot'"),
        (["--tasks", "20Newss"], ValueError, "no task '20Newss'. Did you mean '20News'"),
        (["--tasks", "./missing.csv"], FileNotFoundError, "missing.csv"),
        (["--models", "./missing"], OSError, "no file or folder './missing'"),
        (["--models", "tf-idf"], ValueError, "Did you mean 'tfidf'"),
        (["--shots=40"], ValueError, "lower the number of shots"),
        (["--task_folders", "NYT=/data"], ValueError, "--task_folders has .*nyt.*, which --tasks has not"),
        (["--task_folders", "NYT"], ValueError, "--task_folders takes TASK=FOLDER, got 'NYT'"),
    ],
)
def test_what_cannot_work_is_named_before_anything_is_measured(evaluate, tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        evaluate(tmp_path, *options)
    assert not (tmp_path / "results.json").exists()


def test_a_model_that_gives_nan_is_named(evaluate, workshop, tmp_path):
    model = AutoModelForMaskedLM.from_pretrained(workshop / "tiny")
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.fill_(float("nan"))
    model.save_pretrained(tmp_path / "broken")
    for file in (workshop / "tiny").glob("tokenizer*"):
        (tmp_path / "broken" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="broken.*NaN"):
        evaluate(tmp_path / "out", "--models", str(tmp_path / "broken"))


def test_without_models_it_says_what_to_give(evaluate, tmp_path, capsys):
    with pytest.raises(SystemExit):
        evaluate(tmp_path, "--models")
    assert "--models must be given" in capsys.readouterr().err


def test_help_explains(run_python):
    printed = " ".join(run_python(SCRIPT, "--help").split())
    assert "few_shot over the number of examples" in printed and "The papers use 10" in printed
