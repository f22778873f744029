"""docs/results/study.md, whose tables are those of experiments/study/study_report.py."""

import functools
import re

import pytest

from experiments.study import study_report

from ..commands import ROOT
from .page import Page
from .records import content, mean, records

STUDY = (ROOT / "docs" / "results" / "study.md").read_text(encoding="utf-8")
SHIPPED = ("docsplit-small-en", "docsplit-small-en/start", "tfidf")
TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")


def best_of_tuning(methods):
    """Of each method, the pooling and the rate that are in bold."""
    rows = re.search(r"<!-- table: tuning -->\n(.*?)<!-- end", STUDY, flags=re.DOTALL)[1].splitlines()
    rates = [float(rate) for rate in rows[0].strip("|").split("|")[2:]]
    best = {}
    for row in rows[2:]:
        method, pooling, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        for rate, cell in zip(rates, cells, strict=True):
            if cell.startswith("**"):
                best[method] = (pooling, rate)
    assert set(best) == set(methods)
    return best


@pytest.fixture
def report(monkeypatch):
    """The script that wrote the page's tables, which reads logs of training; what it read of them was kept."""
    module = study_report
    monkeypatch.setattr(module, "logged", lambda name, run: content(f"study/{name}.json").get(run, {}))
    return module


@functools.cache
def earlier():
    return content("study/earlier_results.json")["records"]


def test_figures(report):
    page = Page("docs/results/study.md")
    rows = records("study")
    page.has(report.methods_table(rows, "training", best_of_tuning(report.METHODS)))
    citation = {name: mean(earlier(), "cosine_accuracy", protocol="citation", system=name) for name in SHIPPED}
    for line in report.shipped_table(earlier()).splitlines()[2:]:
        page.has(f"{line} {citation[line.split(' | ')[0].strip('| ')]:.1f} |")
    page.has(report.ablations_table(earlier(), "earlier_training"))
    page.has(report.adaptation_table(earlier()))
    assert page.wrong == [] and page.read >= 200
