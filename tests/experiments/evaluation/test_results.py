"""Records, their file and their summaries."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from experiments.evaluation.results import ResultStore, describe_command, setting, summarize, summarize_records

RECORD = {
    "system": "A", "system_fingerprint": "a", "task": "B", "task_fingerprint": "b", "protocol": "full",
    "settings": {"probe": "mlp", "max_length": 512}, "seed": 0, "metrics": {"accuracy": 0.5}, "seconds": 1.0,
}  # fmt: skip


def test_a_record_is_found_by_its_key_and_not_by_names(tmp_path):
    ResultStore(tmp_path, {"command": "first"}).add(RECORD)
    store = ResultStore(tmp_path)
    same = RECORD | {"system": "another name", "task": "C", "settings": {"max_length": 512, "probe": "mlp"}}
    assert store.find(same) == RECORD | {"run": 0}
    for field in ("system_fingerprint", "task_fingerprint", "protocol"):
        assert store.find(RECORD | {field: "other"}) is None
    for settings in ({"probe": "logistic", "max_length": 512}, {"probe": "mlp", "max_length": 256}):
        assert store.find(RECORD | {"settings": settings}) is None
    assert store.find(RECORD | {"seed": 1}) is None


def test_records_name_the_ensemble_as_today(tmp_path):
    earlier = RECORD | {"system": "A, fitted mixture", "settings": {"probe": "fitted mixture", "max_length": 512}}
    store = ResultStore(tmp_path, {"command": "first"})
    store.add(earlier)
    today = RECORD | {"system": "A, ensemble", "settings": {"probe": "ensemble", "max_length": 512}}
    assert ResultStore(tmp_path).records == [today | {"run": 0}]


def test_a_run_without_new_measurements_does_not_change_the_file(tmp_path):
    store = ResultStore(tmp_path, {"command": "first"})
    store.describe_task("b", {"test": 3})
    store.add(RECORD)
    before = store.path.read_bytes()
    again = ResultStore(tmp_path, {"command": "second"})
    again.describe_task("b", {"test": 3})
    assert again.find(RECORD) and store.path.read_bytes() == before
    again.add(RECORD | {"seed": 1})
    content = json.loads(store.path.read_text())
    assert [run["command"] for run in content["runs"]] == ["first", "second"]
    assert [record["run"] for record in content["records"]] == [0, 1] and content["tasks"] == {"b": {"test": 3}}


def test_merged_stores_have_all_records_with_the_commands_that_measured_them(tmp_path):
    commands = {"one": "first", "other": "second", "again": "first"}
    stores = {name: ResultStore(tmp_path / name, {"command": command}) for name, command in commands.items()}
    for seed, (name, store) in enumerate(stores.items()):
        store.describe_task(name, {"test": seed + 1})
        store.add(RECORD | {"seed": seed})
    merged = ResultStore(tmp_path / "merged")
    for store in (*stores.values(), stores["other"]):
        merged.take(ResultStore(store.path.parent))
    read = ResultStore(tmp_path / "merged")
    assert [read.runs[record["run"]]["command"] for record in read.records] == ["first", "second", "first"]
    assert [record["seed"] for record in read.records] == [0, 1, 2] and len(read.runs) == 2
    assert read.tasks == {name: {"test": seed + 1} for seed, name in enumerate(stores)}


def test_a_crash_while_writing_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    store = ResultStore(tmp_path)
    store.add(RECORD)
    monkeypatch.setattr("docsplit_hf.storage.inside_folder.os.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.add(RECORD | {"seed": 1})
    assert len(ResultStore(tmp_path).records) == 1


def test_a_broken_record_is_refused(tmp_path):
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"A on B, full: \['accuracy'\] is not a finite number"):
            ResultStore(tmp_path).add(RECORD | {"metrics": {"accuracy": number}})
    with pytest.raises(ValueError, match=r"A record lacks \['seed'\]"):
        ResultStore(tmp_path).add({name: value for name, value in RECORD.items() if name != "seed"})
    assert not (tmp_path / "results.json").exists()


def test_mean_deviation_and_interval_equal_scipys_and_one_repeat_has_no_spread():
    values = [0.71, 0.74, 0.69, 0.8]
    summary = summarize(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert summary.mean == pytest.approx(np.mean(values)) and summary.std == pytest.approx(np.std(values, ddof=1))
    assert (summary.mean - summary.interval, summary.mean + summary.interval) == pytest.approx((low, high))
    alone = summarize([0.5])
    assert alone.mean == 0.5 and math.isnan(alone.std) and math.isnan(alone.interval)


def test_rows_summarize_seeds_of_equal_settings_and_a_metric_may_be_missing():
    record = {"system": "A", "task": "B", "protocol": "few_shot", "metrics": {"accuracy": 0.5}}
    records = [record | {"settings": {"shots": shots}, "seed": seed} for shots in (5, 1) for seed in (0, 1, 2)]
    records[-1] = records[-1] | {"metrics": {"accuracy": 0.8, "macro_f1": 1}}
    frame = summarize_records(records)
    assert setting(frame, "shots").tolist() == [5, 1, 1] and setting(frame, "k").tolist() == [None] * 3
    assert frame["metric"].tolist() == ["accuracy", "accuracy", "macro_f1"] and {*frame["seeds"]} == {(0, 1, 2)}
    assert frame["mean"].tolist() == pytest.approx([0.5, 0.6, 1]) and frame["repeats"].tolist() == [3, 3, 1]
    assert summarize_records([]).empty and "mean" in summarize_records([])


def test_an_interval_over_documents_goes_with_its_metric():
    record = {"system": "A", "task": "B", "protocol": "attention", "settings": {}, "seed": 0}
    frame = summarize_records([record | {"metrics": {"noun": 0.5, "noun_interval": 0.1, "verb": 0.2}}])
    assert frame["metric"].tolist() == ["noun", "verb"] and frame["documents"][0] == 0.1
    assert math.isnan(frame["documents"][1]) and math.isnan(frame["interval"][0])


@pytest.mark.parametrize(
    "argv, command",
    [
        (["docsplit evaluate", "--tasks", "my file.csv"], "docsplit evaluate --tasks 'my file.csv'"),
        (["examples/run_evaluation.py", "--seeds", "1"], "python examples/run_evaluation.py --seeds 1"),
        (["-m", "experiments", "--tasks", "a"], "python -m experiments --tasks a"),
    ],
)
def test_a_run_keeps_the_command_that_repeats_it(argv, command):
    assert describe_command(argv)["command"] == command
