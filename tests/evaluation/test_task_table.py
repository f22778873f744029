import json
from pathlib import Path

import pytest

from docsplit_hf.experiments.report.task_table import task_table

SIZES = {"kind": "texts with labels", "train": 1000, "test": 400, "classes": 20, "documents": 1400}
WORDS = {"words": {"mean": 262.4, "median": 153.0, "max": 11780}}
RESULTS = Path(__file__).parents[3] / "docs" / "results"


def lines(*tasks):
    return task_table(dict.fromkeys(tasks, "0123456789"), {"0123456789": SIZES | WORDS})


@pytest.mark.parametrize("name", ["20News", "20News (body)", "20News (raw)"])
def test_the_papers_row_follows_a_data_set_of_theirs_and_which_texts_it_has_is_said(name):
    shown = lines(name, "mine")
    ours = f"| {name} | texts with labels | 1,000 | 400 | 1,400 | 20 | 262 | 153 | 11,780 | 4.9 | 01234567 |"
    theirs = "| *20News, paper* | – | – | – | *18,846* | *20* | *258* | *153* | *11,554* | – | – |"
    assert f"{ours}\n{theirs}\n| mine |" in shown
    assert "table 1" in shown and "20News (raw) as it was sent" in shown


def test_tasks_of_ones_own_stand_alone():
    assert "paper" not in lines("mine") and "20News" not in lines("mine")


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*/results.json")), ids=lambda file: file.parent.name)
def test_results_from_before_words_were_counted_can_be_read(file):
    tasks = json.loads(file.read_text())["tasks"]
    assert task_table({key[:8]: key for key in tasks}, tasks).count("\n| ") == len(tasks) + 1
