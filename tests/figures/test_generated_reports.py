"""Reports that a script writes are what it makes of the records today."""

import importlib
import json
import re
import sys

import pandas as pd
import pytest

from docsplit_hf.evaluation.results import ResultStore
from experiments.papers_options import PaperSettings
from experiments.report.paper_report import results_markdown

from ..commands import ROOT
from .records import RESULTS, content

EVALUATIONS = sorted(path for path in RESULTS.rglob("results.md") if path.with_suffix(".json").exists())


@pytest.fixture(autouse=True)
def import_benchmarks(monkeypatch):
    """A report is a function of a script, which is imported beside its helpers."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: str(path.parent.relative_to(RESULTS)))
def test_results_md_is_what_run_evaluation_writes(path):
    """But for the order of rows, which is that of the command, and the table of data sets, which counts their words."""
    written = path.read_text(encoding="utf-8")
    store = ResultStore(path.parent)
    command = re.search(r"```bash\n(.*?)\n```", written, flags=re.DOTALL)[1]
    shots = re.search(r"--shots (\d+)", command)
    settings = PaperSettings(shots=int(shots[1]) if shots else None)
    figures = re.findall(r"^!\[.*\]\((.*)\)$", written, flags=re.MULTILINE)
    preset = re.search(r"^Preset .*$", written, flags=re.MULTILINE)
    about = {"figures": figures, "preset": preset[0] if preset else ""}
    made = results_markdown(store.records, store.runs, store.tasks, settings, command, **about)
    assert sorted(measured(written)) == sorted(measured(made))


def measured(report):
    head, _, _ = report.partition("\n| Task")
    _, *sections = report.split("\n## ")
    lines = [line for part in (head, *sections) for line in part.splitlines()]
    return [" ".join(sorted(re.split(r"[ ,()]+", line))) if line.startswith("Seeds") else line for line in lines]


def test_report_of_few_labels():
    report = importlib.import_module("few_labels.report")
    frame = pd.DataFrame(content("few_labels/records.jsonl"))
    frame = frame[frame["task"].isin(["20news", "arxiv", "bbc", "fakenews"])]
    [(encoder, mine)] = frame.groupby("encoder")
    made = "\n\n".join([f"# {encoder}", *report.sections(mine)]) + "\n"
    assert made == (RESULTS / "few_labels" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["audit", "rejection", "unequal/rejection", "foreign/rejection"])
def test_report_of_reliability(name):
    module = importlib.import_module(name.rpartition("/")[2])
    records = content(f"reliability/{name}.jsonl")
    made = module.write_report(pd.DataFrame(records)) if name == "audit" else module.report(records)
    assert made == (RESULTS / "reliability" / f"{name}.md").read_text(encoding="utf-8")


def test_table_of_ten_million():
    table = importlib.import_module("ten_million_report").table
    made = table([json.loads((RESULTS / "ten_million" / f"{10**n}.json").read_text()) for n in (5, 6, 7)])
    assert made in (RESULTS / "ten_million" / "results.md").read_text(encoding="utf-8")
