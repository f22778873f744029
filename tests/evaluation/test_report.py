"""Tables of the report."""

from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.report import escape, main_table, results_markdown

SIZES = {"kind": "texts with labels", "train": 10, "test": 10, "classes": 4, "words": {"median": 7.0}}
RUNS = [{"command": "docsplit evaluate", "date": "2026-01-01", "ran_on": "a machine", "versions": {"Python": "3"}}]


def record(system, task, protocol, metrics, seed=0, **settings):
    return {
        "system": system,
        "system_fingerprint": system,
        "task": task,
        "task_fingerprint": task,
        "protocol": protocol,
        "settings": settings,
        "seed": seed,
        "metrics": metrics,
        "seconds": 1.0,
        "run": 0,
    }


def test_a_table_has_a_row_for_each_task_number_of_examples_and_system():
    records = [
        record("A", "flat", "few_shot", {"accuracy": 0.5 + seed / 50, "macro_f1": 0.4}, seed, shots=shots)
        for shots in (5, 1)
        for seed in range(2)
    ]
    records.append(record("A|B", "tree", "full", {"accuracy": 0.6, "level_1_accuracy": 0.9}))
    report = results_markdown(records, RUNS, {"flat": SIZES, "tree": SIZES}, "docsplit evaluate", ["no *few* shots"])
    rows = [line for line in report.splitlines() if line.startswith("| ")]
    assert rows[-4:] == [
        "| Task | Examples per class | System | Acc | F1 |",
        "| --- | --- | --- | --- | --- |",
        "| flat | 1 | A | 51.00 ± 1.41 | 40.00 ± 0.00 |",
        "| flat | 5 | A | 51.00 ± 1.41 | 40.00 ± 0.00 |",
    ]
    assert rows[-7:-4] == [
        "| Task | System | Acc | level 1 Acc |",
        "| --- | --- | --- | --- |",
        "| tree | A\\|B | 60.00 | 90.00 |",
    ]
    assert "- no \\*few\\* shots" in report and "- a machine; Python 3 (2026-01-01)" in report
    assert main_table(records).startswith("## Full classification") and "few" not in main_table(records)


@given(st.text())
def test_any_name_stays_one_cell_of_one_line(name):
    line = f"| {escape(name)} |"
    assert len(line.splitlines()) == 1
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 2
