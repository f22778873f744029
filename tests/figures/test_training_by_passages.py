"""docs/results/training_by_passages.md."""

import numpy as np

from .page import Page
from .records import content

COLUMNS = (
    "citation, means, AUROC",
    "citation, best 3 pairs of passages, AUROC",
    "kinds of articles, 5 per class, means",
)
COLUMNS += ("kinds of articles, 20 per class, means", "20News, 5 per class, means", "20News, 20 per class, means")
COLUMNS += ("20News, 20 per class, heads", "half retrieval, heads", "half retrieval, passages")


def arms():
    found = {}
    for record in content("training_by_passages/records.jsonl"):
        found.setdefault((record["start"], record["arm"], record.get("learning_rate")), []).append(record)
    return found


def mean(runs, column):
    return 100 * np.mean([run["metrics"][column] for run in runs])


def cell(runs, column):
    values = [100 * run["metrics"][column] for run in runs]
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def test_figures():
    page = Page("docs/results/training_by_passages.md")
    found = arms()
    for (start, arm, rate), runs in found.items():
        untrained = arm == "start"
        steps = "–" if untrained else str(round(np.mean([run["steps"] for run in runs])))
        how = ("nothing yet", "–", "–", "–") if untrained else (arm, str(rate), str(len(runs)), steps)
        page.has_rows([(start, *how, *(cell(runs, column) for column in COLUMNS))])
    assert page.wrong == [] and page.read >= 100
