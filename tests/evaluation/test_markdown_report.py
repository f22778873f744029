import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.experiment import EvaluationSettings
from docsplit_hf.evaluation.markdown_report import (
    escape,
    format_summary,
    main_table,
    results_markdown,
    table_by_system,
    table_by_task,
    task_table,
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


def test_a_row_for_each_task_and_system_and_a_column_for_what_was_measured():
    frame = frame_of(("A", "mine", {"mrr": 0.5}), ("B", "other", {"mrr": 0.6}), ("B", "mine", {"mrr": 0.7}))
    rows = rows_of(table_by_task(frame, ["recall@1", "mrr"], "std"))
    assert rows[0] == ["Task", "System", "MRR"]
    assert [row[:2] for row in rows[2:]] == [["mine", "A"], ["mine", "B"], ["other", "B"]]


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


def test_full_has_an_interval_over_the_seeds_and_few_shot_a_deviation_over_the_draws(report):
    full, few_shot = section(report, "Full classification"), section(report, "Few-shot classification")
    assert "95 % confidence interval of the mean over the seeds" in full and "Seeds: 0 to 2." in full
    assert "standard deviation over the repeats" in few_shot and "Seeds: 0 to 3." in few_shot
    assert "5 examples per class" in few_shot


def test_curves_have_a_column_per_number_of_shots(report):
    curve = section(report, "Few-shot classification by examples per class")
    assert "| System | 1 per class | 5 per class | 10 per class |" in curve and "### first" in curve


def test_nothing_measured_is_no_report():
    with pytest.raises(ValueError, match="no records to report"):
        results_markdown([], [], {}, EvaluationSettings(), COMMAND)


def test_the_last_screen_shows_the_first_table():
    records = make_records(["BERT"], ["mine"])
    shown = main_table(records, EvaluationSettings())
    assert shown.startswith("Full classification") and "mine Acc" in shown
    few_shot = [record for record in records if record["protocol"] == "few_shot"]
    assert main_table(few_shot, EvaluationSettings()).startswith("Few-shot classification")


def test_a_data_set_has_its_sizes_and_words():
    sizes = {"kind": "texts with labels", "train": 1000, "test": 400, "classes": 20, "documents": 1400}
    words = {"words": {"mean": 262.4, "median": 153.0, "max": 11780}}
    shown = task_table({"mine": "0123456789"}, {"0123456789": sizes | words})
    assert "| mine | texts with labels | 1,000 | 400 | 1,400 | 20 | 262 | 153 | 11,780 | 4.9 | 01234567 |" in shown


@given(st.text())
def test_any_name_stays_one_cell_of_one_line(name):
    line = f"| {escape(name)} |"
    assert len(line.splitlines()) == 1
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 2
