"""ResultStore: measurements with seeds and settings in results.json; summaries of repeats."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import platform
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

import pandas as pd

from docsplit_hf.fitting.ensemble.report import ENSEMBLE
from docsplit_hf.storage.inside_folder import write_file

FILE_NAME = "results.json"
VERSION = 1
KEY = ("system_fingerprint", "task_fingerprint", "protocol", "settings", "seed")
LIBRARIES = ("docsplit_hf", "torch", "transformers", "scikit-learn", "numpy")
EARLIER_NAME_OF_ENSEMBLE = "fitted mixture"  # in records of earlier versions, as the probe and in the system
FIELDS = {*KEY, "system", "task", "metrics", "seconds"}


Settings = dict[str, str | int | float | bool | list[int] | None]  # settings of a protocol, as JSON values


class Record(TypedDict):
    """One measurement."""

    system: str
    system_fingerprint: str
    task: str
    task_fingerprint: str
    protocol: str
    settings: Settings
    seed: int
    metrics: NotRequired[dict[str, float]]  # missing in a record to look up
    seconds: NotRequired[float]
    run: NotRequired[int]  # number of its command in ``runs``, set by the store


class Run(TypedDict):
    """A command that measured records."""

    command: str
    date: str  # ISO 8601, in UTC
    ran_on: str
    versions: dict[str, str]


TaskDescription = dict[str, str | int | list[int] | dict[str, float]]  # kind, sizes, documents, words


def record_key(record: Record) -> str:
    """The identity of a measurement as JSON, without names, dates and versions of libraries."""
    return json.dumps([record[name] for name in KEY], sort_keys=True)


def with_present_name(record: Record) -> Record:
    """Call the ensemble by its present name in a record of an earlier version."""
    settings = record["settings"]
    if settings.get("probe") != EARLIER_NAME_OF_ENSEMBLE:
        return record
    system = record["system"].replace(EARLIER_NAME_OF_ENSEMBLE, ENSEMBLE)
    return record | {"system": system, "settings": settings | {"probe": ENSEMBLE}}


class ResultStore:
    """The records in a ``results.json``, which is written after each new record. Use it in one process at a time."""

    def __init__(self, folder: str | Path, run: Run | None = None) -> None:
        self.path = Path(folder) / FILE_NAME
        self.run = dict(run or {})
        self.runs: list[Run] = []
        self.tasks: dict[str, TaskDescription] = {}
        self._records: dict[str, Record] = {}
        self._run_number: int | None = None
        if self.path.exists():
            self._read()

    @property
    def records(self) -> list[Record]:
        """All records, in the order of measurement."""
        return list(self._records.values())

    def find(self, wanted: Record) -> Record | None:
        """The record with the same ``KEY``, or None."""
        return self._records.get(record_key(wanted))

    def add(self, record: Record) -> None:
        """Add a record, or replace the record with the same key, and write the file."""
        _check(record)
        if self._run_number is None:
            self.runs.append(self.run)
            self._run_number = len(self.runs) - 1
        self._records[record_key(record)] = {**record, "run": self._run_number}
        self._write()

    def take(self, other: ResultStore) -> None:
        """Add the records, runs and tasks of another store, and write the file."""
        self.runs += [run for run in other.runs if run not in self.runs]
        for key, record in other._records.items():
            self._records[key] = {**record, "run": self.runs.index(other.runs[record["run"]])}
        self.tasks |= other.tasks
        self._write()

    def describe_task(self, fingerprint: str, description: TaskDescription) -> None:
        """Set the description of a task; it is written with the next record."""
        self.tasks[fingerprint] = dict(description)

    def _read(self) -> None:
        """Read and check the file."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            version = content["version"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is not a results file ({error}). Move it away to start over.") from error
        if version != VERSION:
            raise ValueError(f"{self.path} has version {version}, not {VERSION}. Move it away to start over.")
        for given in content["records"]:
            _check(given)
            record = with_present_name(given)
            self._records[record_key(record)] = record
        self.runs = content["runs"]
        self.tasks = content["tasks"]

    def _write(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, format_results(self.runs, self.tasks, self.records))


def format_results(runs: Sequence[Run], tasks: Mapping[str, TaskDescription], records: Sequence[Record]) -> str:
    """Format a ``results.json`` with one record per line, so that diffs show the new records of a run."""
    run_lines = ",\n  ".join(map(json.dumps, runs))
    record_lines = ",\n  ".join(map(json.dumps, records))
    task_lines = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(task)}" for key, task in tasks.items())
    return (
        f'{{"version": {VERSION},\n "runs": [\n  {run_lines}\n ],\n "tasks": {{\n  {task_lines}\n }},\n'
        f' "records": [\n  {record_lines}\n ]}}\n'
    )


def describe_command(arguments: Sequence[str]) -> Run:
    """Describe a run by its ``sys.argv``."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} threads"
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    script, *options = arguments
    program = script.split() if script.startswith("docsplit ") else ["python", script]
    return {
        "command": shlex.join([*program, *options]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "ran_on": f"{processor()}, {device}",
        "versions": {"Python": platform.python_version()} | versions,
    }


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = re.search(r"^model name\s*: (.+)$", info.read_text(), re.MULTILINE)
        if model:
            return model[1]
    return platform.processor() or platform.machine()


def _check(record: Record) -> None:
    """Refuse a record with missing fields or metrics that are not finite."""
    missing = sorted(FIELDS - set(record))
    if missing:
        raise ValueError(f"A record lacks {missing}: {str(dict(record))[:200]}")
    broken = [name for name, value in record["metrics"].items() if not math.isfinite(value)]
    if broken:
        where = f"{record['system']} on {record['task']}, {record['protocol']}"
        raise ValueError(f"{where}: {broken} is not a finite number.")


INTERVAL = "_interval"  # "noun_interval" is half the confidence interval of the metric "noun"
GROUP = ("system", "task", "protocol", "settings")


class Summary(NamedTuple):
    """Mean, sample standard deviation, and half the 95 % confidence interval of the mean; both NaN for one repeat."""

    mean: float
    std: float
    interval: float  # over seeds and draws of examples, not over the choice of the test set
    repeats: int
    documents: float = math.nan  # over the choice of the test set, if the protocol measures it


def summarize(values: Sequence[float]) -> Summary:
    """Compute mean, standard deviation and half the 95 % confidence interval, ``t(n-1, 0.975) * std / sqrt(n)``."""
    from scipy.stats import t

    series = pd.Series(values, dtype=float)
    std = float(series.std())
    interval = float(t.ppf(0.975, len(series) - 1)) * std / math.sqrt(len(series))
    return Summary(float(series.mean()), std, interval, len(series))


def summarize_records(records: Iterable[Record]) -> pd.DataFrame:
    """Summarize repeats: a row for each ``GROUP`` and metric, with the ``seeds`` and the fields of ``Summary``."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(json.dumps([record[name] for name in GROUP], sort_keys=True), []).append(record)
    rows = []
    for group in groups.values():
        columns = [*(group[0][name] for name in GROUP), tuple(record["seed"] for record in group)]
        metrics = pd.DataFrame([record["metrics"] for record in group])
        for name in metrics:
            if name.endswith(INTERVAL):
                continue
            summary = summarize(metrics[name].dropna())
            if f"{name}{INTERVAL}" in metrics:
                summary = summary._replace(documents=float(metrics[f"{name}{INTERVAL}"].mean()))
            rows.append((*columns, name, *summary))
    return pd.DataFrame(rows, columns=[*GROUP, "seeds", "metric", *Summary._fields])


def setting(frame: pd.DataFrame, name: str) -> pd.Series:
    """The values of a setting; None for rows without it."""
    return pd.Series([settings.get(name) for settings in frame["settings"]], frame.index, dtype=object)
