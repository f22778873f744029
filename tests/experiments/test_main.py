"""``python -m experiments``: the papers' tasks, protocols and preset, in this process."""

import contextlib
import io
import json
import re
import runpy
import sys

import pytest

from ..commands import ROOT

IMPORTED = r"^\s*(?:from|import) experiments\b"
FEW_RUNS = ["--probe=logistic", "--repeats=3", "--seeds=2", "--shots=3"]


def run_papers(folder, options):
    """Run the command, and return its output."""
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()) as printed:
        patched.setattr(sys, "argv", ["experiments", *options, f"--output_dir={folder}"])
        try:
            runpy.run_module("experiments", run_name="__main__")
        except SystemExit as stopped:  # the command prints one line in place of the exception
            raise stopped.__cause__ from None
    return printed.getvalue()


@pytest.fixture(scope="module")
def labeled(texts, tmp_path_factory):
    """Two files of labeled texts."""
    folder = tmp_path_factory.mktemp("labeled")
    for name, step in {"second": 2, "third": 3}.items():
        lines = [f'"{text}",{"no" if number % step else "yes"}\n' for number, text in enumerate(texts)]
        (folder / f"{name}.csv").write_text("text,label\n" + "".join(lines))
    return [str(folder / f"{name}.csv") for name in ("second", "third")]


def test_ways_to_read_long_documents_are_compared_by_length(labeled, tiny_checkpoint, tmp_path):
    output = tmp_path / "out"
    encoder = str(tiny_checkpoint)
    options = ["--protocol", "length", "--long_documents", "first", "passages", "--tasks", *labeled]
    printed = run_papers(output, ["--models", encoder, "tfidf", *options, *FEW_RUNS, "--max_length=32"])
    measured = 1 + 2 * (3 + 2)  # how much is read; the probe and neighbors, each with few and with all examples
    assert f"{3 * 2 * measured} records" in printed and "| tiny (passages) |" in printed
    report = (output / "results.md").read_text()
    assert "### second: all examples, neighbors" in report and "## What is read" in report
    assert (output / "length_probe.png").exists() and (output / "length_neighbors.svg").exists()


def test_the_preset_has_the_papers_options_and_the_command_line_overrides_them(texts, tmp_path):
    output = tmp_path / "out"
    for split in ("train", "test"):
        rows = [{"text": f"From: ann\n\n{text}", "label": f"sci.{number % 2}"} for number, text in enumerate(texts)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(*options):
        task = ["--tasks", "20news", "--task_folders", f"20news={tmp_path}"]
        protocols = ["--protocol", "full", "few_shot", "--no_figures"]
        small = [*FEW_RUNS, "--max_length=64"]
        run_papers(output, ["--preset=papers", *task, *options, "--models", "tfidf", *protocols, *small])
        return json.loads((output / "results.json").read_text()), (output / "results.md").read_text()

    results, report = run()
    line = next(line for line in report.splitlines() if line.startswith("Preset `papers`"))
    assert "--few_shot_probe mlp --repeats 10 --seeds 10" in line and "10 examples per class for FakeNews" in line
    changes = "--protocol full few_shot --probe logistic --shots 3 --repeats 3 --seeds 2 --max_length 64"
    assert line.endswith(f"Overridden here: `{changes}`.")
    probes = {record["protocol"]: record["settings"]["probe"] for record in results["records"]}
    assert probes == {"full": "logistic", "few_shot": "mlp"}
    assert {record["task"] for record in results["records"]} == {"20News (body)"}
    both, raw = run("--newsgroups=raw")
    assert both["records"][: len(results["records"])] == results["records"] and len(both["tasks"]) == 2
    assert "20News (raw) Acc" in raw and "20News (body) Acc" not in raw and "--newsgroups raw`." in raw


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (["--tasks", "20Newss"], ValueError, "no task '20Newss'. Did you mean '20News'"),
        (["--task_folders", "NYT=/data"], ValueError, "--task_folders has .*nyt.*, which --tasks has not"),
        (["--task_folders", "NYT"], ValueError, "--task_folders takes TASK=FOLDER, got 'NYT'"),
        (["--protocol", "citatoin"], ValueError, "no protocol 'citatoin'. Did you mean 'citation'"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_measured(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        run_papers(tmp_path, ["--models", "tfidf", *options])
    assert not (tmp_path / "results.json").exists()


def test_no_file_of_the_package_imports_the_experiments():
    files = [*(ROOT / "docsplit_hf").rglob("*.py"), *(ROOT / "examples").glob("*.py")]
    assert len(files) > 150 and not [file for file in files if re.search(IMPORTED, file.read_text(), re.MULTILINE)]
