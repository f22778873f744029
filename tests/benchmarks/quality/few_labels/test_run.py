"""A second run measures only missing records, and saved embeddings do not change answers."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality.few_labels import run
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import load_few_labels
from benchmarks.quality.few_labels.records import read_records


@pytest.fixture
def folder(tmp_path, texts):
    for split, part in (("train", texts[:32]), ("test", texts[32:44])):
        labels = itertools.cycle(["river", "engine"])
        lines = [json.dumps({"text": text, "label": label}) for text, label in zip(part, labels, strict=False)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def measure(folder, tiny_checkpoint, tmp_path, monkeypatch):
    """Run the script with these options, and return the file of its records."""
    records = tmp_path / "out" / "records.jsonl"
    fixed = [
        f"--tasks={folder}",
        f"--encoder={tiny_checkpoint}",
        f"--records={records}",
        f"--embeddings={tmp_path / 'kept'}",
    ]

    def measured(*options):
        monkeypatch.setattr(sys, "argv", ["run.py", *fixed, *options])
        run.main()
        return records

    return measured


def test_finished_records_are_not_measured_again_but_a_half_written_one_is(measure):
    systems = ["--systems", "two_way", "probe", "tfidf", "--per_label", "2", "all"]
    file = measure(*systems, "--draws", "1")
    before = file.read_text()
    assert len(before.splitlines()) == 6
    file.write_text(before[:-20])  # killed while the last one was written
    measure(*systems, "--draws", "2")
    assert file.read_text().startswith("\n".join(before.splitlines()[:5]))
    keys = [(r["system"], r["per_label"], r["draw"]) for r in read_records(file)]
    assert len(keys) == len(set(keys)) == 9 and {r["examples"] for r in read_records(file)} == {4, 32}


def test_an_unknown_system_is_refused_before_anything_is_measured(measure, capsys):
    with pytest.raises(SystemExit):
        measure("--systems", "probe", "prob")
    assert "no system 'prob'" in capsys.readouterr().err


def test_the_pipeline_answers_the_same_from_saved_embeddings(folder, tiny_checkpoint, tmp_path):
    task = load_few_labels(folder)
    embedder = Embedder(str(tiny_checkpoint), task, tmp_path / "kept")
    np.testing.assert_allclose(embedder.embed(task.test), embedder.embed_anew(task.test), atol=1e-5)

    def answers():
        pipe = embedder.pipeline()
        pipe.add_examples(task.pool[:8], [task.names[i] for i in task.pool_labels[:8]])
        return [[answer["score"] for answer in given] for given in pipe(task.test, top_k=None)]

    expected = answers()
    with embedder.remembered():
        embedder._pipe = None  # embedding with it would fail
        np.testing.assert_allclose(answers(), expected, atol=1e-5)
    assert Path(tmp_path / "kept").exists()
