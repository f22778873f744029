import re

import pytest

from docsplit_hf.experiments.protocols.settings import EvaluationSettings
from docsplit_hf.experiments.report.markdown_report import main_table, results_markdown

from .handmade import COMMAND, RUNS, TASKS, make_records

LEFT_OUT = ["citation does not run on mine: it takes pairs of documents."]


def make_report():
    records = make_records(["BERT", "tfidf"], ["20News", "arXiv", "mine"])
    return results_markdown(records, RUNS, TASKS, EvaluationSettings(), COMMAND, LEFT_OUT, ["few_shot.png"])


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


def test_it_says_how_to_repeat_it_on_what_it_ran_and_what_was_left_out(report):
    assert f"```bash\n{COMMAND}\n```" in report
    assert "- a processor; torch 2.13.0 (2024-01-01)" in report
    assert "- citation does not run on mine" in report
    assert "| 20News | texts with labels | 1,000 | 400 | – | 20 | – | – | – | 4.9 |" in report
    assert "probe `mlp` (of word counts a linear support vector machine)" in section(report, "Full classification")
    assert "word counts and endpoints do not know it" in report
    assert make_report() == report


def test_full_has_an_interval_over_the_seeds_and_few_shot_a_deviation_over_the_draws(report):
    full, few_shot = section(report, "Full classification"), section(report, "Few-shot classification")
    assert "95 % confidence interval of the mean over the seeds" in full and "Seeds: 0 to 2." in full
    assert "standard deviation over the repeats" in few_shot and "Seeds: 0 to 3." in few_shot
    assert "5 (20News, mine), 10 (arXiv) examples per class" in few_shot


def test_the_papers_numbers_are_marked_with_their_table_and_stand_where_the_task_is_theirs(report):
    full = section(report, "Full classification")
    assert "| *BERT, paper* | *62.34* | *54.19* | *68.52* | *20.46* | – | – |" in full
    assert "the papers' own numbers" in full and "table 1" in full and "other sizes of data" in full
    assert "*53.56*" in section(report, "Citation") and "SimDE, table 3" in section(report, "Citation")
    assert "| *20News, paper* | *R, paper* | 1.12 |" in section(report, "Redundancy: nouns and verbs")
    assert "| *arXiv, paper* | *SimCSE, paper* | 0.51 | 0.35 |" in section(report, "Redundancy: sentences")
    assert "paper" not in section(report, "Half-document retrieval")


def test_curves_have_a_column_per_number_of_shots(report):
    curve = section(report, "Few-shot classification by examples per class")
    assert "| System | 1 per class | 5 per class | 10 per class |" in curve and "### 20News" in curve


def test_what_has_an_interval_over_the_documents_shows_it(report):
    attention = section(report, "Attention by part of speech")
    assert "over the documents" in attention and "| 0.00400 ± 0.00100 | 0.00300 |" in attention
    assert "Means of 3 repeats; ± is half the 95 % confidence interval over the documents" in section(
        report, "Redundancy: sentences"
    )


def test_a_preset_is_named_before_the_data():
    records = make_records(["BERT"], ["mine"])
    shown = results_markdown(records, RUNS, TASKS, EvaluationSettings(), COMMAND, preset="Preset `papers`.")
    assert "\n\nPreset `papers`.\n\n| Task |" in shown


def test_nothing_measured_is_no_report():
    with pytest.raises(ValueError, match="no records to report"):
        results_markdown([], [], {}, EvaluationSettings(), COMMAND)


def test_the_last_screen_shows_the_first_table_without_the_papers():
    shown = main_table(make_records(["BERT"], ["20News"]), EvaluationSettings())
    assert shown.startswith("Full classification") and "20News Acc" in shown and "paper" not in shown
    few_shot = [record for record in make_records(["BERT"], ["20News"]) if record["protocol"] == "few_shot"]
    assert main_table(few_shot, EvaluationSettings()).startswith("Few-shot classification")
