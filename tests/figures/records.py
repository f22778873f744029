"""The records beside the pages: reading them, and means over what their rows have in common."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from docsplit_hf.evaluation.results import Summary, summarize, summarize_records
from experiments.report.length_tables import with_gains

from ..commands import ROOT

RESULTS = ROOT / "docs" / "results"
Records = Sequence[dict[str, Any]]


@functools.cache
def content(name: str) -> Any:
    """What a file of JSON or of lines of it below docs/results holds."""
    text = (RESULTS / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def records(folder: str) -> Records:
    """The records of a folder's results.json."""
    return content(f"{folder}/results.json")["records"]


class Cell(NamedTuple):
    """What was measured of a system on a task by a protocol and its settings."""

    system: str
    task: str
    protocol: str
    settings: Mapping[str, Any]
    metrics: dict[str, Summary]


@functools.cache
def summarized(folder: str) -> Sequence[Cell]:
    """A cell for each system, task, protocol and settings of a folder, with what long documents gain."""
    cells: dict[str, Cell] = {}
    for row in summarize_records(with_gains(records(folder))).itertuples():
        about = row.system, row.task, row.protocol, row.settings
        cell = cells.setdefault(json.dumps(about, sort_keys=True), Cell(*about, {}))
        cell.metrics[row.metric] = Summary(*(getattr(row, name) for name in Summary._fields))
    return list(cells.values())


def chosen(rows: Records, **fields: Any) -> Records:
    """The rows with these values in their fields or settings, of which there is at least one."""
    found = [
        row for row in rows if all(row.get(name, row.get("settings", {}).get(name)) == fields[name] for name in fields)
    ]
    assert found, fields
    return found


def percent(rows: Records, metric: str, **fields: Any) -> np.ndarray:
    """A metric of each row in percent."""
    return np.array([100 * row["metrics"][metric] for row in chosen(rows, **fields)])


def mean(rows: Records, metric: str, **fields: Any) -> float:
    """The mean of a metric in percent."""
    return float(percent(rows, metric, **fields).mean())


def half_interval(values: Sequence[float]) -> float:
    """Half of the 95 % interval of a mean."""
    return summarize(list(values)).interval
