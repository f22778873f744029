"""Training on all of long documents: docs/results/training_by_passages.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .pages import Figures, Row
from .records import Records, content

FEW_SHOT = (
    "kinds of articles, 5 per class, means",
    "kinds of articles, 20 per class, means",
    "20News, 5 per class, means",
    "20News, 20 per class, means",
)
HALVES = "half retrieval, passages"
COLUMNS = (
    "citation, means, AUROC",
    "citation, best 3 pairs of passages, AUROC",
    *FEW_SHOT,
    "20News, 20 per class, heads",
    "half retrieval, heads",
    HALVES,
)
# Start, what was trained on, and the learning rate.
Arm = tuple[str, str, float | None]
ARMS: tuple[Arm, ...] = (
    ("common start", "start", None),
    ("common start", "heads", 0.001),
    ("common start", "heads", 0.00025),
    ("common start", "one passage", 0.001),
    ("common start", "passages as parts", 0.001),
    ("common start", "passages", 0.001),
    ("common start", "passages", 0.00025),
    ("common start", "long", 0.001),
    ("common start", "heads, larger batches", 0.001),
    ("common start", "passages, larger batches", 0.00025),
    ("all-MiniLM-L6-v2", "start", None),
    ("all-MiniLM-L6-v2", "heads", 5e-5),
    ("all-MiniLM-L6-v2", "passages as parts", 5e-5),
    ("all-MiniLM-L6-v2", "passages", 5e-5),
)


def training_by_passages() -> Figures:
    found = arms()
    parts = found["common start", "passages as parts", 0.001]
    means = found["common start", "passages", 0.001]
    heads = found["common start", "heads", 0.001]
    gains = [mean(parts, column) - mean(means, column) for column in FEW_SHOT]
    return {
        "all": [row(arm, found[arm]) for arm in ARMS],
        "parts over means, least": min(gains),
        "parts over means, most": max(gains),
        "parts over means, halves": mean(parts, HALVES) - mean(means, HALVES),
        "halves, parts": mean(parts, HALVES),
        "halves, heads": mean(heads, HALVES),
        "halves, heads, lower rate": mean(found["common start", "heads", 0.00025], HALVES),
        "kinds, parts": mean(parts, FEW_SHOT[0]),
        "kinds, heads": mean(heads, FEW_SHOT[0]),
        "kinds, MiniLM, passages": mean(found["all-MiniLM-L6-v2", "passages", 5e-5], FEW_SHOT[0]),
        "kinds, MiniLM": mean(found["all-MiniLM-L6-v2", "start", None], FEW_SHOT[0]),
    }


def arms() -> Mapping[Arm, Records]:
    """Return the runs of each arm, one for a seed."""
    found: dict[Arm, Records] = {}
    for record in content("training_by_passages/records.jsonl"):
        found.setdefault((record["start"], record["arm"], record.get("learning_rate")), []).append(record)
    return found


def mean(runs: Records, column: str) -> float:
    """Return the mean over the seeds in percent."""
    return float(100 * np.mean([run["metrics"][column] for run in runs]))


def row(arm: Arm, runs: Records) -> Row:
    start, trained_on, rate = arm
    if trained_on == "start":
        about = ("nothing yet", "–", "–", "–")
    else:
        about = (trained_on, str(rate), str(len(runs)), str(round(np.mean([run["steps"] for run in runs]))))
    return (start, *about, *(cell(runs, column) for column in COLUMNS))


def cell(runs: Records, column: str) -> str:
    """Return the mean over the seeds, with their standard deviation if there are several."""
    values = [100 * run["metrics"][column] for run in runs]
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")
