"""Records in docs/results: reading them, and means over rows that have something in common."""

from __future__ import annotations

import functools
import gzip
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from experiments.evaluation.results import Summary, summarize, summarize_records
from experiments.report.length_tables import with_gains

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
Records = Sequence[dict[str, Any]]


@functools.cache
def content(name: str) -> Any:
    """Load a file of JSON, or of JSON lines, below docs/results; large ones are compressed as ``NAME.gz``."""
    path = RESULTS / name
    if path.exists():
        text = path.read_text(encoding="utf-8")
    else:
        text = gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def benchmark(name: str) -> ModuleType:
    """Import a module of benchmarks/ by its name below that folder, such as ``quality.audit``."""
    return importlib.import_module(f"benchmarks.{name}")


def records(folder: str) -> Records:
    """Return the records of a folder's results.json."""
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
        key = json.dumps((row.system, row.task, row.protocol, row.settings), sort_keys=True)
        cell = cells.setdefault(key, Cell(row.system, row.task, row.protocol, row.settings, metrics={}))
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
