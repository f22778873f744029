"""Tables of the report."""

from docsplit_hf.evaluation.experiment import EvaluationSettings
from experiments.report.markdown_report import main_table, results_markdown

from .handmade import LENGTH, repeats_of

SETTINGS = EvaluationSettings()
RUNS = [{"command": "docsplit evaluate", "date": "2026-01-01", "ran_on": "a machine", "versions": {}}]
SIZES = {"kind": "texts with labels", "train": 10, "test": 10, "classes": 4, "documents": 20}
TASKS = {"flat": SIZES, "tree": SIZES | {"levels": [2, 1200]}}


def records_of(task, levels):
    """Records of two systems in the protocol ``full``, with the metrics of levels of which each is better."""
    records = []
    for system, accuracy in (("A", 0.5), ("B", 0.6)):
        metrics = {"accuracy": accuracy, "macro_f1": accuracy - 0.1}
        for level in levels:
            metrics |= {f"level_{level}_accuracy": accuracy + 0.3 / level, f"level_{level}_macro_f1": 0.3 / level}
        records += repeats_of(system, task, "full", {"probe": "logistic"} | LENGTH, metrics, repeats=1)
    return records


def test_a_tree_has_a_table_by_level_and_flat_labels_have_none():
    flat = records_of("flat", levels=())
    records = flat + records_of("tree", levels=(1, 2))
    table = [
        "| System | tree, level 1 (2 labels) Acc | tree, level 1 (2 labels) F1 "
        "| tree, level 2 (1,200 labels) Acc | tree, level 2 (1,200 labels) F1 |",
        "| --- | --- | --- | --- | --- |",
        "| A | 80.00 | **30.00** | 65.00 | **15.00** |",
        "| B | **90.00** | **30.00** | **75.00** | **15.00** |",
    ]
    report = results_markdown(records, RUNS, TASKS, SETTINGS, "docsplit evaluate")
    _, heading, by_level = report.partition("### Full classification by level\n")
    assert heading and by_level.strip().splitlines()[-4:] == table
    assert main_table(records, TASKS, SETTINGS).splitlines()[-4:] == table
    for of_flat in (
        results_markdown(flat, RUNS, TASKS, SETTINGS, "docsplit evaluate"),
        main_table(flat, TASKS, SETTINGS),
    ):
        assert "| B | **60.00** | **50.00** |" in of_flat and "level" not in of_flat
