"""The report of given records."""

import math
import sys

import pandas as pd
import pytest
from few_labels import report
from few_labels.records import add_record

METRICS = {name: 0.5 for name in report.TITLES} | {"documents_per_second": None}


def record(task, system, per_label, draw, macro_f1):
    fields = {"task": task, "system": system, "encoder": "tiny", "per_label": per_label, "draw": draw}
    return METRICS | fields | {"classes": 2, "macro_f1": macro_f1}


def test_means_over_draws_and_over_tasks():
    rows = [record(task, "ours", "5", draw, f1) for task in "ab" for draw, f1 in enumerate((0.4, 0.6))]
    found = report.summaries(pd.DataFrame([*rows, record("a", "probe", "5", 0, 0.3)]), "macro_f1")
    one, mean = found["a", "ours", "5"], found[report.MEAN, "ours", "5"]
    assert mean.mean == pytest.approx(0.5) and mean.interval == pytest.approx(one.interval / math.sqrt(2))
    assert (report.MEAN, "probe", "5") not in found  # it has one of two tasks


def test_a_rivals_settings_count_only_where_its_defaults_are_missing():
    rows = [record("a", "setfit", "5", 0, 0.4), record("a", "setfit#max_steps=9", "5", 0, 0.9)]
    frame, notes = report.merged(pd.DataFrame([*rows, record("b", "setfit#max_steps=9", "5", 0, 0.6)]))
    assert frame["macro_f1"].tolist() == [0.4, 0.6] and set(frame["system"]) == {"setfit"}
    assert notes == ["setfit#max\\_steps=9 on b at 5"]


def test_tables_and_figure(tmp_path, monkeypatch):
    for per_label, f1 in (("all", 0.9), ("20", 0.8), ("5", 0.7)):
        for system in ("ours", "probe"):
            add_record(tmp_path / "records.jsonl", record("a", system, per_label, 0, f1))
    options = ["--records", tmp_path / "records.jsonl", "--out", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", ["report.py", *map(str, options)])
    report.main()
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| Task | System | 5 | 20 | all |" in text and "| a | ours | 70.00 | 80.00 | 90.00 |" in text
    assert (tmp_path / "out" / "few_labels_tiny.png").exists()
