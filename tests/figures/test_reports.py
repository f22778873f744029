"""Reports that stand beside their records."""

import json
import re

import numpy as np
import pytest

from docs.figures.records import RESULTS, chosen, content
from docs.figures.reliability import report_rows
from experiments.evaluation.results import ResultStore, summarize
from experiments.papers_options import PaperSettings
from experiments.report.paper_report import results_markdown

EVALUATIONS = sorted(
    path
    for path in RESULTS.rglob("results.md")
    if path.with_suffix(".json").exists() or path.with_suffix(".json.gz").exists()
)


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: str(path.parent.relative_to(RESULTS)))
def test_results_md_is_what_run_evaluation_writes(path, tmp_path):
    """Except for the order of rows, which is that of the command, and the sizes of the data sets."""
    written = path.read_text(encoding="utf-8")
    results = content(str(path.parent.relative_to(RESULTS) / "results.json"))
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    store = ResultStore(tmp_path)
    command = re.search(r"```bash\n(.*?)\n```", written, flags=re.DOTALL)[1]
    shots = re.search(r"--shots (\d+)", command)
    settings = PaperSettings(shots=int(shots[1]) if shots else None)
    figures = re.findall(r"^!\[.*\]\((.*)\)$", written, flags=re.MULTILINE)
    preset = re.search(r"^Preset .*$", written, flags=re.MULTILINE)
    made = results_markdown(
        store.records,
        store.runs,
        store.tasks,
        settings,
        command,
        figures=figures,
        preset=preset[0] if preset else "",
    )
    assert sorted(measured(written)) == sorted(measured(made))


def measured(report):
    head, _, _ = report.partition("\n| Task")
    _, *sections = report.split("\n## ")
    lines = [line for part in (head, *sections) for line in part.splitlines()]
    return [" ".join(sorted(re.split(r"[ ,()]+", line))) if line.startswith("Seeds") else line for line in lines]


def test_macro_f1_of_suggestions():
    """The means in suggestions.md, which small-text was needed to write, are those of the records."""
    rows = content("reliability/suggestions.jsonl")
    for task, strategy, half, _, end, *_ in report_rows("suggestions"):
        curves = [row["curve"] for row in chosen(rows, task=task, strategy=strategy)]
        for text in (half, end):
            value, labels = text.split(" at ")
            points = [point["macro_f1"] for curve in curves for point in curve if point["labels"] == int(labels)]
            assert abs(100 * np.mean(points) - float(value)) <= 0.05 + 1e-9


def test_audit():
    """Each mean with its interval in the table of audits is that of a group of records."""
    page = (RESULTS / "reliability.md").read_text(encoding="utf-8")
    text = re.search(r"## Audit\n.*?(?=\n## )", page, flags=re.DOTALL)[0]
    groups = {}
    for row in content("reliability/audit.jsonl"):
        for metric, value in row.items():
            if isinstance(value, float):
                groups.setdefault((row["task"], row["part"], row["method"], metric), []).append(100 * value)
    known = np.array([(found.mean, found.interval) for found in map(summarize, groups.values())])
    shown = re.findall(r"(\d+\.\d+) ± (\d+\.\d+)", text)
    assert len(shown) > 20
    for numbers in shown:  # rounded from audit.md, which has a digit more
        assert (np.abs(known - np.array(numbers, float)) <= 0.055 + 1e-9).all(1).any(), numbers
