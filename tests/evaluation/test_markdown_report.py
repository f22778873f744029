import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.experiment import EvaluationSettings
from docsplit_hf.evaluation.markdown_report import (
    escape,
    format_summary,
    results_markdown,
    table_by_system,
)
from docsplit_hf.evaluation.results import Summary, summarize_records

from .handmade import COMMAND, RUNS, TASKS, make_records


def frame_of(*cells):
    """A summary of two equal repeats of the metrics of each system and task."""
    return summarize_records(
        {"system": system, "task": task, "protocol": "full", "settings": {}, "seed": seed, "metrics": metrics}
        for system, task, metrics in cells
        for seed in (0, 1)
    )


def rows_of(text):
    return [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines()]


def test_numbers_are_percentages_but_where_they_are_none():
    summary, alone = Summary(0.76891, 0.004, 0.01, 3), Summary(0.00412, math.nan, math.nan, 1)
    assert format_summary(summary, "std") == "76.89 ± 0.40"
    assert format_summary(summary, "interval") == "76.89 ± 1.00"
    assert format_summary(alone, "std", 4) == "0.0041" and format_summary(alone, "std") == "0.41"
    assert format_summary(None, "std") == "–"


def test_systems_are_rows_and_tasks_columns_and_the_best_is_bold():
    frame = frame_of(
        ("A", "20News", {"accuracy": 0.5, "macro_f1": 0.4}),
        ("B", "20News", {"accuracy": 0.6, "macro_f1": 0.3}),
        ("B", "mine", {"accuracy": 0.9, "macro_f1": 0.9}),
        ("A  *", "mine", {"mrr": 0.5}),
    )
    rows = rows_of(table_by_system(frame, ["accuracy", "macro_f1"], "std"))
    assert rows[0] == ["System", "20News Acc", "20News F1", "mine Acc", "mine F1"]
    assert rows[2] == ["A", "50.00 ± 0.00", "**40.00 ± 0.00**", "–", "–"]
    assert rows[4] == ["A \\*", "–", "–", "–", "–"]
    assert rows[3] == ["B", "**60.00 ± 0.00**", "30.00 ± 0.00", "**90.00 ± 0.00**", "**90.00 ± 0.00**"]


@pytest.fixture(scope="module")
def report():
    names = ("full", "few_shot", "half_documents")
    records = [one for one in make_records(["BERT", "tfidf"], ["first", "mine"]) if one["protocol"] in names]
    tasks = TASKS | {"first": TASKS["mine"]}
    left_out = ["few_shot does not run on mine."]
    return results_markdown(records, RUNS, tasks, EvaluationSettings(), COMMAND, left_out, ["few_shot.png"])


def section(report, title):
    return re.split(r"\n## ", report.partition(f"## {title}\n")[2])[0]


def test_every_protocol_has_its_section(report):
    assert re.findall(r"^## (.*)", report, re.M) == [
        "Full classification", "Few-shot classification", "Few-shot classification by examples per class",
        "Half-document retrieval", "Figures",
    ]  # fmt: skip
    assert "paper" not in report


def test_it_says_how_to_repeat_it_on_what_it_ran_and_what_was_left_out(report):
    assert f"```bash\n{COMMAND}\n```" in report
    assert "- a processor; torch 2.13.0 (2024-01-01)" in report
    assert "- few\\_shot does not run on mine" in report
    assert "| mine | texts with labels | 1,000 | 400 | – | 20 | – | – | – | 4.9 |" in report
    assert "probe `mlp` (of word counts a linear support vector machine)" in section(report, "Full classification")
    assert "word counts and endpoints do not know it" in report


@given(st.text())
def test_any_name_stays_one_cell_of_one_line(name):
    line = f"| {escape(name)} |"
    assert len(line.splitlines()) == 1
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 2
