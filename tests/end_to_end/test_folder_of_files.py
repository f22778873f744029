"""From a folder of files to sorted files, by the commands."""

import csv
import json
import os
import re
import shutil

import pyarrow.parquet as pq
import pytest

from docsplit_hf.apps.cli.commands import COMMANDS
from docsplit_hf.classifier.sorting.sorted_files import MANIFEST

from ..documents import write_damaged, write_docx, write_pdf
from .forked import kill_script, start_script


@pytest.fixture(scope="session")
def script_of(workshop):
    """Return a script that runs a command of docsplit."""

    def make(command):
        path = workshop / f"{command}.py"
        path.write_text(
            f"from docsplit_hf.{COMMANDS[command].module} import run\n\nif __name__ == '__main__':\n    run()\n"
        )
        return path

    return make


@pytest.fixture(scope="session")
def run_docsplit(script_of, run_script):
    """Run a command of docsplit; returns what it printed."""
    return lambda command, *options, **more: run_script(script_of(command), *options, **more)


@pytest.fixture(scope="session")
def files(workshop, texts):
    """Folders of labeled and of other files: PDF, Word, a scan, and a damaged file."""
    folder = workshop / "files"
    for i, text in enumerate(texts):
        label = "river" if "river" in text else "sci_fi"
        place = folder / "labeled" / label if i % 2 else folder / "inbox" / f"{i % 3}"
        name = f"{i if i % 2 else i // 4}"
        if i % 5:
            write_pdf(place / f"{name}.pdf", ["A cover sheet of the office.", text])
        else:
            write_docx(place / f"{name}.docx", [text])
    write_pdf(folder / "labeled" / "river" / "scan.pdf", [None])
    write_damaged(folder / "inbox" / "damaged.pdf")
    return folder


@pytest.fixture(scope="session")
def classifier(workshop, files, run_docsplit):
    output = workshop / "files-classifier"
    printed = run_docsplit(
        "fit", f"--dataset_name={files / 'labeled'}", f"--unlabeled_name={files}/inbox/**/*.pdf",
        f"--model_name_or_path={workshop / 'tiny'}", f"--output_dir={output}", "--use_cpu",
    )  # fmt: skip
    return output, printed


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_classifier_is_made_from_folders_and_failures_are_listed(classifier, files):
    output, printed = classifier
    assert re.search(r"Embedding \d+ texts takes about \d+ seconds \('whole'\)\.", printed)
    assert "Fitted on 24 examples of 2 labels and 1" in printed
    assert f"--model {output} --predict new/ --predict_output sorted-new/" in printed
    assert f"Files that could not be read: 2, listed with their reasons in {output / 'failed.csv'}." in printed
    failed = {(row["file"].rpartition("/")[2], row["reason"]) for row in read_csv(output / "failed.csv")}
    assert failed == {("scan.pdf", "scanned, without text"), ("damaged.pdf", "damaged")}


def test_answers_to_a_folder_have_file_and_page(classifier, files, workshop, run_docsplit):
    target = workshop / "answers-files.csv"
    printed = run_docsplit(
        "classify", f"--model={classifier[0]}", f"--predict={files / 'inbox'}",
        f"--predict_output={target}", "--use_cpu",
    )  # fmt: skip
    rows = read_csv(target)
    assert list(rows[0]) == ["file", "label", "score", "page", "reason"] and len(rows) == 25
    assert [row["file"] for row in rows] == sorted(row["file"] for row in rows)
    for row in rows:
        if row["file"] == "damaged.pdf":
            assert (row["label"], row["score"], row["reason"]) == ("", "", "damaged")
        else:
            assert row["label"] in ("river", "sci_fi") and row["score"]
            assert row["page"] in (("1", "2") if row["file"].endswith(".pdf") else ("",))
    assert "24 texts were classified" in printed and "Files that could not be read: 1" in printed
    assert [row["file"] for row in read_csv(target.with_name("failed.csv"))] == ["damaged.pdf"]


def test_files_are_sorted_by_label_and_undone(classifier, files, workshop, run_docsplit):
    before = contents(files)
    target = workshop / "sorted"
    predict = (
        "classify", f"--model={classifier[0]}", f"--predict={files / 'inbox'}",
        f"--predict_output={target}", "--use_cpu",
    )  # fmt: skip
    printed = run_docsplit(*predict)
    lines = [json.loads(line) for line in (target / MANIFEST).read_text().splitlines()]
    entries = [line for line in lines if line["source"] is not None]
    assert [line["target"] for line in lines[25:]] == ["answers.csv", "failed.csv"]
    assert len(entries) == 25 and f"25 files were sorted into {target}:" in printed
    for entry in entries:
        name = os.path.relpath(entry["source"], files.resolve())
        assert (target / entry["target"]).read_bytes() == before[name]
    assert {entry["target"].partition("/")[0] for entry in entries} <= {"river", "sci_fi", "_failed"}
    assert (target / "_failed" / "damaged.pdf").exists()
    again = run_docsplit(*predict)
    assert "0 files were sorted" in again and "sorted there before, and stay where they are: 25." in again
    figures = json.loads(run_docsplit("undo", str(target), "--json").splitlines()[-1])
    assert figures["removed"] == 25 and figures["changed"] == []
    assert contents(target) == {} and contents(files) == before
    assert "give a folder into which files were sorted" in run_docsplit("undo", str(target), code=2)


def test_undoing_without_the_originals_keeps_the_copies(classifier, files, tmp_path, run_docsplit):
    inbox = tmp_path / "inbox"
    target = tmp_path / "sorted"
    shutil.copytree(files / "inbox", inbox)
    predict = (
        "classify", f"--model={classifier[0]}", f"--predict={inbox}", f"--predict_output={target}",
        "--use_cpu",
    )  # fmt: skip
    run_docsplit(*predict)
    before = contents(target)
    shutil.rmtree(inbox)
    printed = run_docsplit("undo", str(target))
    assert "0 files were removed" in printed
    assert "Files that stay, as their originals are gone or were changed: 25." in printed
    kept = contents(target)
    assert {name: kept[name] for name in before if name != MANIFEST} == {
        name: content for name, content in before.items() if name != MANIFEST
    }


@pytest.mark.parametrize("there", ["answers.csv", "failed.csv"])
def test_an_existing_report_is_found_before_the_work(there, files, workshop, tmp_path, run_docsplit):
    target = tmp_path / "sorted"
    target.mkdir()
    (target / there).write_text("mine")
    printed = run_docsplit(
        "classify", f"--dataset_name={files / 'labeled'}", f"--predict={files / 'inbox'}",
        f"--model_name_or_path={workshop / 'tiny'}", f"--output_dir={tmp_path / 'out'}", f"--predict_output={target}",
        code=2,
    )  # fmt: skip
    assert f"{target / there} is there already: move it away, delete it, or name another place" in printed
    assert "--overwrite_output_dir" not in printed and not (tmp_path / "out").exists()
    assert (target / there).read_text() == "mine"


def test_a_killed_run_is_finished_by_the_same_command(classifier, files, workshop, script_of, run_docsplit, tmp_path):
    def options(target):
        return [
            f"--model={classifier[0]}", f"--predict={files / 'inbox'}", f"--predict_output={target}",
            "--use_cpu",
        ]  # fmt: skip

    run_docsplit("classify", *options(tmp_path / "whole"))
    whole = contents(tmp_path / "whole")
    target = tmp_path / "sorted"
    log = tmp_path / "log"
    process = start_script(script_of("classify"), *options(target), log=log)
    kill_script(process, (target / "answers.csv.partial").exists, log)
    run_docsplit("classify", *options(target))
    found = contents(target)
    assert found.keys() == whole.keys()
    assert all(found[file] == whole[file] for file in whole if file != MANIFEST)


def test_a_plan_needs_a_folder(classifier, files, run_docsplit):
    printed = run_docsplit(
        "classify", f"--model={classifier[0]}", f"--predict={files / 'inbox'}", "--predict_output=a.csv",
        "--dry_run", code=2,
    )  # fmt: skip
    assert "--dry_run is for sorted files: give a folder by --predict_output" in printed


def test_embeddings_keep_the_file_and_its_places(files, workshop, run_docsplit):
    output = workshop / "files.parquet"
    printed = run_docsplit(
        "embed", f"--dataset_name={files / 'inbox'}", f"--output={output}", f"--model_name_or_path={workshop / 'tiny'}"
    )
    rows = pq.read_table(output).to_pylist()
    assert len(rows) == 24 and set(rows[0]) == {"text", "file", "places", "embedding"}
    assert all(bool(row["places"]) == row["file"].endswith("pdf") for row in rows)
    assert "Files that could not be read: 1" in printed
