"""docs/results/longer_study.md, whose tables are those of experiments/study/longer_report.py."""

from experiments.study import longer_report as report

from .page import Page
from .records import content


def test_figures():
    page = Page("docs/results/longer_study.md")
    rows, runs = content("longer_study/records.jsonl"), content("longer_study/runs.jsonl")
    page.has(report.curves_table(rows, runs))
    page.has(report.verdicts_table(rows))
    last = report.last_step(rows, (report.OURS, report.SIMCSE))
    page.has(report.shots_table(rows, last))
    page.check(at_least=60)
