import math

from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.experiments.report.paper_results import FULL, REDUNDANCY
from docsplit_hf.experiments.report.summary import Cell, Summary, summarize
from docsplit_hf.experiments.report.tables import escape, format_summary, table_by_system, table_by_task


def cell(system, task, **metrics):
    return Cell(system, task, "full", {}, {name: summarize(values) for name, values in metrics.items()}, (0, 1))


def rows_of(text):
    return [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines()]


def test_numbers_are_percentages_but_where_they_are_none():
    summary, alone = Summary(0.76891, 0.004, 0.01, 3), Summary(0.00412, math.nan, math.nan, 1)
    assert format_summary("accuracy", summary, "std") == "76.89 ± 0.40"
    assert format_summary("accuracy", summary, "interval") == "76.89 ± 1.00"
    assert format_summary("noun", alone, "std") == "0.0041" and format_summary("accuracy", alone, "std") == "0.41"
    assert format_summary("accuracy", None, "std") == "–"


def test_systems_are_rows_and_tasks_columns_and_the_best_is_bold():
    cells = [
        cell("A", "20News", accuracy=[0.5, 0.5], macro_f1=[0.4, 0.4]),
        cell("B", "20News", accuracy=[0.6, 0.6], macro_f1=[0.3, 0.3]),
        cell("B", "mine", accuracy=[0.9, 0.9], macro_f1=[0.9, 0.9]),
        cell("A  *", "mine", mrr=[0.5]),
    ]
    rows = rows_of(table_by_system(cells, ["accuracy", "macro_f1"], "std"))
    assert rows[0] == ["System", "20News Acc", "20News F1", "mine Acc", "mine F1"]
    assert rows[2] == ["A", "50.00 ± 0.00", "**40.00 ± 0.00**", "–", "–"]
    assert rows[4] == ["A \\*", "–", "–", "–", "–"]
    assert rows[3] == ["B", "**60.00 ± 0.00**", "30.00 ± 0.00", "**90.00 ± 0.00**", "**90.00 ± 0.00**"]


def test_the_papers_rows_stand_in_the_columns_of_the_same_task_only():
    cells = [cell("A", task, accuracy=[0.5]) for task in ("mine", "20News")]
    rows = {row[0]: row for row in rows_of(table_by_system(cells, ["accuracy"], "std", FULL))}
    assert rows["*DocSplit\\_bert, paper*"] == ["*DocSplit\\_bert, paper*", "–", "*76.89*"]
    assert rows["*INSTRUCTOR, paper*"][2] == "–"
    assert "paper" not in table_by_system(cells[:1], ["accuracy"], "std", FULL)


def test_a_row_for_each_task_and_system_with_the_papers_below():
    cells = [cell("spaCy", task, **{"0-50": [1.1], "101-200": [1.3]}) for task in ("FakeNews", "mine")]
    rows = rows_of(table_by_task(cells, REDUNDANCY.metrics, "std", REDUNDANCY, plain_digits=2))
    assert rows[0] == ["Task", "System", "0-50", "101-200"]  # only what was measured
    assert rows[2:] == [
        ["FakeNews", "spaCy", "1.10", "1.30"],
        ["*FakeNews, paper*", "*R, paper*", "1.06", "–"],
        ["mine", "spaCy", "1.10", "1.30"],
    ]


@given(st.text())
def test_any_name_stays_one_cell_of_one_line(name):
    line = f"| {escape(name)} |"
    assert len(line.splitlines()) == 1
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 2
