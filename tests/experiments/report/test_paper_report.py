import json
import re
from pathlib import Path

import pytest

from docsplit_hf.evaluation.markdown_report import task_table
from experiments.papers_options import PaperSettings
from experiments.report.paper_report import main_table, paper_data, results_markdown
from tests.evaluation.handmade import COMMAND, RUNS, TASKS, make_records

SIZES = {"kind": "texts with labels", "train": 1000, "test": 400, "classes": 20, "documents": 1400}
WORDS = {"words": {"mean": 262.4, "median": 153.0, "max": 11780}}
RESULTS = Path(__file__).parents[3] / "docs" / "results"
LEFT_OUT = ["citation does not run on mine: it takes pairs of documents."]


def make_report():
    records = make_records(["BERT", "tfidf"], ["20News", "arXiv", "mine"])
    return results_markdown(records, RUNS, TASKS, PaperSettings(), COMMAND, LEFT_OUT, ["few_shot.png"])


report = pytest.fixture(make_report, scope="module", name="report")


def section(report, title):
    return re.split(r"\n## ", report.partition(f"## {title}\n")[2])[0]


def test_every_protocol_has_its_section(report):
    assert re.findall(r"^## (.*)", report, re.M) == [
        "Full classification", "Few-shot classification", "Few-shot classification by examples per class",
        "Nearest neighbors", "Classification with neighbors: three systems by three ways to answer", "Citation",
        "Half-document retrieval",
        "Redundancy: nouns and verbs", "Redundancy: sentences", "Attention by part of speech", "Figures",
    ]  # fmt: skip


def test_few_shot_has_the_papers_shots_of_each_task(report):
    assert "5 (20News, mine), 10 (arXiv) examples per class" in section(report, "Few-shot classification")


def test_the_papers_numbers_are_marked_with_their_table_and_stand_where_the_task_is_theirs(report):
    full = section(report, "Full classification")
    assert "| *BERT, paper* | *62.34* | *54.19* | *68.52* | *20.46* | – | – |" in full
    assert "the papers' own numbers" in full and "table 1" in full and "other sizes of data" in full
    assert "*53.56*" in section(report, "Citation") and "SimDE, table 3" in section(report, "Citation")
    assert "| *20News, paper* | *R, paper* | 1.12 |" in section(report, "Redundancy: nouns and verbs")
    assert "| *arXiv, paper* | *SimCSE, paper* | 0.51 | 0.35 |" in section(report, "Redundancy: sentences")
    assert "paper" not in section(report, "Half-document retrieval")


def test_what_has_an_interval_over_the_documents_shows_it(report):
    attention = section(report, "Attention by part of speech")
    assert "over the documents" in attention and "| 0.00400 ± 0.00100 | 0.00300 |" in attention
    assert "Means of 3 repeats; ± is half the 95 % confidence interval over the documents" in section(
        report, "Redundancy: sentences"
    )


def test_a_preset_is_named_before_the_data():
    records = make_records(["BERT"], ["mine"])
    shown = results_markdown(records, RUNS, TASKS, PaperSettings(), COMMAND, preset="Preset `papers`.")
    assert "\n\nPreset `papers`.\n\n| Task |" in shown


def test_the_last_screen_shows_the_first_table_without_the_papers():
    shown = main_table(make_records(["BERT"], ["20News"]), PaperSettings())
    assert shown.startswith("Full classification") and "20News Acc" in shown and "paper" not in shown
    few_shot = [record for record in make_records(["BERT"], ["20News"]) if record["protocol"] == "few_shot"]
    assert main_table(few_shot, PaperSettings()).startswith("Few-shot classification")


def lines(*tasks):
    return task_table(dict.fromkeys(tasks, "0123456789"), {"0123456789": SIZES | WORDS}, paper_data)


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
    assert task_table({key[:8]: key for key in tasks}, tasks, paper_data).count("\n| ") == len(tasks) + 1


def test_the_papers_rows_stand_in_the_columns_of_the_same_task_only():
    records = [one for one in make_records(["A"], ["mine", "20News"]) if one["protocol"] == "full"]
    shown = results_markdown(records, RUNS, TASKS, PaperSettings(), COMMAND)
    assert "| *DocSplit\\_bert, paper* | – | – | *76.89* | *74.85* |" in shown
    assert "| *INSTRUCTOR, paper* | – | – | – | – |" in shown
