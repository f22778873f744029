import contextlib
import io
import json
import runpy
import sys

import pytest

from .conftest import ROOT

SCRIPT = ROOT / "examples" / "run_evaluation.py"
OPTIONS = ["--repeats=2", "--shots", "1", "3", "--max_length=64"]


@pytest.fixture(scope="module")
def labeled(workshop, texts):
    """A file of labeled texts, as a user has it."""
    lines = [f'"{text}",{"no" if number % 2 else "yes"}\n' for number, text in enumerate(texts)]
    (workshop / "labeled.csv").write_text("text,label\n" + "".join(lines))
    return str(workshop / "labeled.csv")


@pytest.fixture(scope="module")
def evaluate(workshop, labeled):
    """Run ``docsplit evaluate`` in this process; returns what it printed."""

    def evaluate(folder, *options):
        models = ["--models", str(workshop / "tiny")]
        command = [str(SCRIPT), *models, "--tasks", labeled, f"--output_dir={folder}", *OPTIONS, *options]
        with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()) as printed:
            patched.setattr(sys, "argv", command)
            try:
                runpy.run_path(str(SCRIPT), run_name="__main__")
            except SystemExit as stopped:  # with one line in place of what was raised
                raise stopped.__cause__ or stopped from None
        return printed.getvalue()

    return evaluate


def test_each_system_has_a_row_for_each_number_of_examples(evaluate, tmp_path):
    printed = evaluate(tmp_path, "--protocol", "full", "few_shot", "half_documents")
    report = (tmp_path / "results.md").read_text()
    records = json.loads((tmp_path / "results.json").read_text())
    # Of an encoder a linear probe and the ensemble, of word counts a linear probe and the largest class.
    assert len(records) == 4 * (1 + 2 * 2) + 2
    for row in ("labeled | all | tiny |", "labeled | 3 | tiny, ensemble |", "labeled | 1 | largest class |"):
        assert row in printed and row in report, row
    assert "## half_documents" in report and "docsplit evaluate" in report
    assert {record["system"] for record in records if record["protocol"] == "half_documents"} == {"tiny", "tfidf"}


def test_a_repeated_command_measures_the_same(evaluate, tmp_path):
    for name in ("first", "second"):
        evaluate(tmp_path / name)
    assert (tmp_path / "first" / "results.json").read_text() == (tmp_path / "second" / "results.json").read_text()


def test_ways_to_read_long_documents_are_compared(evaluate, tmp_path):
    options = ["--protocol", "few_shot", "--long_documents", "first", "average", "--max_length=32"]
    printed = evaluate(tmp_path, *options)
    assert "| tiny (first) |" in printed and "| tiny (average), ensemble |" in printed


def test_texts_without_labels_are_compared_by_their_halves(evaluate, texts, tmp_path):
    (tmp_path / "texts.csv").write_text("body\n" + "".join(f'"{text} {text[::-1]}."\n' for text in texts))
    options = ["--tasks", str(tmp_path / "texts.csv"), "--text_column=body", "--protocol", "half_documents"]
    assert "| texts | all | tiny |" in evaluate(tmp_path / "out", *options)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (["--protocol", "fewshot"], SystemExit, "2"),
        (["--tasks", "20News"], (ValueError, OSError), "20News"),
        (["--tasks", "./missing.csv"], FileNotFoundError, "missing.csv"),
        (["--models", "./missing"], OSError, "no file or folder './missing'"),
        (["--models", "tf-idf"], ValueError, "Did you mean 'tfidf'"),
        (["--protocol", "few_shot", "--shots=40"], ValueError, "Nothing was measured"),
        (["--label_column=kind"], ValueError, "no column 'kind'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(evaluate, tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        evaluate(tmp_path, *options)
    assert not (tmp_path / "results.json").exists()


def test_named_columns_and_a_rare_class_that_stops_few_shot_only(evaluate, texts, tmp_path, caplog):
    kinds = ["rare"] * 2 + ["yes", "no"] * 23
    lines = [f'"{text} Größe.";{kind}\n' for text, kind in zip(texts, kinds, strict=True)]
    (tmp_path / "contracts.csv").write_text("body;kind\n" + "".join(lines), encoding="cp1252")
    options = ["--tasks", str(tmp_path / "contracts.csv"), "--text_column=body", "--label_column=kind"]
    options += ["--csv_separator=;", "--encoding=cp1252", "--shots=3"]
    printed = evaluate(tmp_path / "out", *options, "--protocol", "full", "few_shot")
    assert "3 per class are left out on contracts: its smallest class has" in caplog.text
    assert "few_shot" not in (tmp_path / "out" / "results.json").read_text()
    assert all(f"| {name} |" in printed for name in ("tfidf", "largest class", "tiny, ensemble"))


def test_missing_models_or_tasks_are_named_and_help_explains_them(run_script):
    assert "--models must be given: tfidf, docsplit-small-en, a folder" in run_script(SCRIPT, code=2)
    assert "--tasks must be given: your files and folders" in run_script(SCRIPT, "--models=tfidf", code=2)
    printed = " ".join(run_script(SCRIPT, "--help").split())
    assert "several numbers make a curve" in printed
