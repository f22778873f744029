"""Texts that reports of records share: names of metrics, machines, and escaped names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Records = Sequence[Mapping[str, Any]]

MISSING = "–"
WORDS = "Words are those of a document, of training and test together; of Chinese, characters."
WORD_COUNTS = "of word counts a linear support vector machine"
TITLES = {"accuracy": "Acc", "macro_f1": "F1", "mrr": "MRR"}


def escape(name: str) -> str:
    """Put a name on one line, and escape Markdown's special characters."""
    name = " ".join(name.split())
    return "".join(f"\\{character}" if character in "\\|*_`<>[]" else character for character in name)


def ran_on(records: Records, runs: Records) -> str:
    """List the machines that measured these records, with their versions of libraries."""
    first_dates: dict[str, str] = {}
    for number in sorted({record["run"] for record in records}):
        run = runs[number]
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        first_dates.setdefault(f"{run['ran_on']}; {versions}", run["date"][:10])
    lines = "\n".join(f"- {machine} ({date})" for machine, date in first_dates.items())
    hours = sum(record["seconds"] for record in records) / 3600
    systems = len({record["system"] for record in records})
    tasks = len({record["task"] for record in records})
    head = f"{len(records):,} measurements of {systems} systems on {tasks} tasks, {hours:.2f} hours in all, on:"
    return f"{head}\n\n{lines}"
