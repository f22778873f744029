"""Reports beside their records, which are written whole."""

from __future__ import annotations

import pandas as pd

from .few_labels import FOUR
from .records import benchmark, content


def few_labels_report() -> str:
    report = benchmark("quality.few_labels.report")
    frame = pd.DataFrame(content("few_labels/records.jsonl"))
    frame = frame[frame["task"].isin(FOUR)]
    [(encoder, mine)] = frame.groupby("encoder")
    return "\n\n".join([f"# {encoder}", *report.sections(mine)]) + "\n"


def audit_report() -> str:
    return benchmark("quality.audit").write_report(pd.DataFrame(content("reliability/audit.jsonl")))


def rejection_report(name: str) -> str:
    return benchmark("quality.rejection").report(content(f"reliability/{name}.jsonl"))
