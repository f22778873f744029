import contextlib
import io
import json
import runpy
import sys

import pytest

from docsplit_hf import DocumentEncoder
from docsplit_hf.apps.cli.evaluate import word_counts_win
from docsplit_hf.evaluation.experiment import PlannedMeasurement

from .conftest import ROOT
from .forked import kill_script, start_script

SCRIPT = ROOT / "examples" / "run_evaluation.py"
OPTIONS = [
    "--protocol", "full", "few_shot", "curve", "half_documents", "--repeats=2", "--seeds=2",
    "--shots=3", "--curve_shots", "1", "3", "--max_length=64",
]  # fmt: skip
# Systems, and the records of full, the curve (few-shot in it) and halves; beside those of a probe one for full, and as
# many for the curve, of the fitted mixture or the largest class.
RECORDS = 2 * (2 + 1 + 2 * (2 + 2) + 2)


@pytest.fixture(scope="module")
def labeled(workshop, texts):
    """A file of labeled texts, as a user has it."""
    lines = [f'"{text}",{"no" if number % 2 else "yes"}\n' for number, text in enumerate(texts)]
    (workshop / "labeled.csv").write_text("text,label\n" + "".join(lines))
    return str(workshop / "labeled.csv")


@pytest.fixture(scope="module")
def command(workshop, labeled):
    def command(folder, *options):
        models = ["--models", str(workshop / "tiny"), "tfidf"]
        return [str(SCRIPT), *models, "--tasks", labeled, f"--output_dir={folder}", *OPTIONS, *options]

    return command


@pytest.fixture(scope="module")
def evaluate(command):
    """Run ``docsplit evaluate`` in this process; returns what it printed."""

    def evaluate(folder, *options):
        with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(io.StringIO()) as printed:
            patched.setattr(sys, "argv", command(folder, *options))
            try:
                runpy.run_path(str(SCRIPT), run_name="__main__")
            except SystemExit as stopped:  # with one line in place of what was raised
                raise stopped.__cause__ from None
        return printed.getvalue()

    return evaluate


@pytest.fixture(scope="module")
def whole(evaluate, workshop):
    """The folder of an uninterrupted run, and what it printed."""
    return workshop / "whole", evaluate(workshop / "whole")


def numbers(folder):
    content = json.loads((folder / "results.json").read_text())
    names = ("system", "task", "protocol", "settings", "seed", "metrics")
    return sorted(json.dumps([record[name] for name in names]) for record in content["records"])


def test_the_report_and_the_last_screen(whole):
    folder, printed = whole
    assert "Full classification" in printed and " tiny |" in printed and "results.md" in printed
    report = (folder / "results.md").read_text()
    for part in ("## Half-document retrieval", f"python {SCRIPT}"):
        assert part in report, part


def test_a_repeated_command_computes_nothing_and_writes_the_same_files(evaluate, whole, monkeypatch):
    folder, _ = whole
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert set(before) == {"results.json", "results.md"}
    monkeypatch.setattr(PlannedMeasurement, "run", lambda *_: 1 / 0)
    assert f"{RECORDS} records, 0 of them measured now" in evaluate(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_a_killed_run_continues(server, command, evaluate, whole, tmp_path):
    results = tmp_path / "killed" / "results.json"
    log = tmp_path / "log"
    process = start_script(*command(tmp_path / "killed"), log=log)
    kill_script(process, lambda: results.exists() and len(json.loads(results.read_text())["records"]) >= 3, log)
    done = json.loads(results.read_text())["records"]
    assert 3 <= len(done) < RECORDS
    embedded = {file: file.stat().st_mtime_ns for file in (tmp_path / "killed" / "embeddings").glob("*.safetensors")}
    assert embedded

    printed = evaluate(tmp_path / "killed")
    assert f"{RECORDS} records, {RECORDS - len(done)} of them measured now" in printed
    assert json.loads(results.read_text())["records"][: len(done)] == done
    assert {file: file.stat().st_mtime_ns for file in embedded} == embedded
    assert numbers(tmp_path / "killed") == numbers(whole[0])


def test_embeddings_are_cached_apart_from_results_and_by_length(evaluate, whole, tmp_path, monkeypatch):
    real = DocumentEncoder.encode

    def encode_few(self, texts, **options):
        assert len(texts) < 8, "embeddings were not served from the cache"  # those of the fingerprint are fewer
        return real(self, texts, **options)

    monkeypatch.setattr(DocumentEncoder, "encode", encode_few)
    evaluate(tmp_path, f"--cache_dir={whole[0] / 'embeddings'}")
    assert numbers(tmp_path) == numbers(whole[0])
    with pytest.raises(AssertionError, match="not served from the cache"):
        evaluate(tmp_path, f"--cache_dir={whole[0] / 'embeddings'}", "--max_length=16")


def test_ways_to_read_long_documents_are_compared(evaluate, tmp_path):
    options = ["--protocol", "few_shot", "--long_documents", "first", "average", "--max_length=32"]
    printed = evaluate(tmp_path, *options)
    assert f"{3 * (2 + 2)} records" in printed and "| tiny (average) |" in printed


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (["--protocol", "fewshot"], ValueError, "no protocol 'fewshot'. Did you mean 'few_shot'"),
        (["--tasks", "20News"], ValueError, "no task '20News': give a file, a folder, a pattern or 'documentation'"),
        (["--tasks", "./missing.csv"], FileNotFoundError, "missing.csv"),
        (["--models", "./missing"], OSError, "no file or folder './missing'"),
        (["--models", "tf-idf"], ValueError, "Did you mean 'tfidf'"),
        (["--protocol", "few_shot", "--shots=40"], ValueError, "Nothing was measured: .*lower the number of shots"),
        (["--label_column=kind"], ValueError, "no column 'kind'"),
        (["--protocol", "citation"], ValueError, "no protocol 'citation'. Known protocols: full, few_shot"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(evaluate, tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        evaluate(tmp_path, *options)
    assert not (tmp_path / "results.json").exists()


def test_named_columns_and_a_rare_class_that_stops_few_shot_only(evaluate, texts, tmp_path):
    kinds = ["rare"] * 2 + ["yes", "no"] * 23
    lines = [f'"{text} Größe.";{kind}\n' for text, kind in zip(texts, kinds, strict=True)]
    (tmp_path / "contracts.csv").write_text("body;kind\n" + "".join(lines), encoding="cp1252")
    options = ["--tasks", str(tmp_path / "contracts.csv"), "--text_column=body", "--label_column=kind"]
    options += ["--csv_separator=;", "--encoding=cp1252"]
    printed = evaluate(tmp_path / "out", *options, "--protocol", "full", "few_shot")
    reason = "does not run on contracts: 3 examples of each class"
    assert f"Left out: few_shot {reason}" in printed and reason in (tmp_path / "out" / "results.md").read_text()
    assert "6 records, 6 of them measured now in 0 min" in printed
    assert all(f"| {name} |" in printed for name in ("tfidf", "largest class", "tiny, fitted mixture"))


def test_labels_that_are_a_tree_are_measured_by_level(evaluate, texts, tmp_path):
    labels = ("water/river", "water/sea", "land")
    rows = [{"text": text, "label": labels[number % 3]} for number, text in enumerate(texts)]
    file = tmp_path / "places.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--tasks", str(file), "--protocol", "full", "few_shot"]
    folder = tmp_path / "out"

    flat = evaluate(folder, *options)
    assert "level 1" not in flat and "level_1" not in (folder / "results.json").read_text()
    by_name = evaluate(folder, *options, "--hierarchy=/")
    assert "| Task | System | Acc | F1 | level 1 Acc | level 1 F1 |" in by_name
    assert (
        "| Examples per class | System | Acc | F1 | level 1 Acc | level 1 F1 |" in (folder / "results.md").read_text()
    )
    records = json.loads((folder / "results.json").read_text())["records"]
    of_tree = records[len(records) // 2 :]
    for record, of_flat in zip(of_tree, records[: len(records) // 2], strict=True):
        levels = {name: record["metrics"].pop(name) for name in ("level_1_accuracy", "level_1_macro_f1")}
        assert record["metrics"] == of_flat["metrics"]
        assert levels["level_1_accuracy"] >= record["metrics"]["accuracy"]

    parents = {"water/river": "water", "water/sea": "water"}
    (tmp_path / "parents.json").write_text(json.dumps(parents))
    by_file = evaluate(folder, *options, f"--hierarchy={tmp_path / 'parents.json'}")
    assert f"{len(of_tree)} records, 0 of them measured now" in by_file  # the same tree by other names
    with pytest.raises(ValueError, match="--hierarchy groups no labels of places: give the separator"):
        evaluate(folder, *options, "--hierarchy=:")


@pytest.mark.parametrize("words, encoder, wins", [(0.9, 0.8, True), (0.7, 0.8, False)])
def test_the_output_explains_why_word_counts_win_only_where_they_do(words, encoder, wins):
    accuracies = {"tfidf": words, "encoder": encoder}
    records = [
        {"system": name, "task": "A", "protocol": "full", "settings": {}, "metrics": {"accuracy": value}, "seed": 0}
        for name, value in accuracies.items()
    ]
    assert word_counts_win(records, {"tfidf"}) is wins and not word_counts_win([], {"tfidf"})


def test_missing_models_or_tasks_are_named_and_help_explains_them(run_script):
    assert "--models must be given: tfidf, docsplit-small-en, a folder" in run_script(SCRIPT, code=2)
    assert "--tasks must be given: your files and folders" in run_script(SCRIPT, "--models=tfidf", code=2)
    printed = " ".join(run_script(SCRIPT, "--help_all").split())
    assert "few_shot over the number of examples" in printed
