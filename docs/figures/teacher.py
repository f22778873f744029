"""A teacher at fit time: docs/teacher.md."""

from __future__ import annotations

import pandas as pd

from .pages import Figures, Row
from .records import content

TEACHERS = ("none", "chance", "0.7", "0.85", "0.95")


def teacher() -> Figures:
    frame = pd.DataFrame(content("few_labels/teacher.jsonl"))
    means = frame.groupby(["task", "per_label", "teacher"])["macro_f1"].mean().unstack("teacher")
    rows: list[Row] = []
    for labels, of_sets in means.groupby("per_label"):
        rows.append((str(labels), *(f"{100 * of_sets[name].mean():.1f}" for name in TEACHERS)))
    lost = (means["none"] - means["chance"]) * 100
    return {
        "teacher": rows,
        "sets": float(frame["task"].nunique()),
        "mean change": float(-lost.mean()),
        "largest loss": float(lost.max()),
    }
