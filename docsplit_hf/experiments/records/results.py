"""results.json: every number that was measured, with its seed and settings; what is there is not computed again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FILE_NAME = "results.json"
VERSION = 1
KEY = ("system_fingerprint", "task_fingerprint", "protocol", "settings", "seed")
FIELDS = {*KEY, "system", "task", "metrics", "seconds"}


def record_key(record: Mapping[str, Any]) -> str:
    """What makes two records the same measurement. Names, dates and versions of libraries are not part of it.

    Args:
        record: A record, or what is known of one before it is measured.

    Returns:
        JSON of the fingerprints of system and task, the protocol, its settings and the seed.

    Example:

        >>> key = dict(system_fingerprint="a", task_fingerprint="b", protocol="full", settings={}, seed=0)
        >>> record_key(key | {"system": "A"}) == record_key(key | {"system": "B"})
        True
    """
    return json.dumps([record[name] for name in KEY], sort_keys=True)


class ResultStore:
    """The records in a ``results.json``, written after each new one.

    A record is ``{"system", "system_fingerprint", "task", "task_fingerprint", "protocol", "settings", "seed",
    "metrics", "seconds", "run"}``. ``run`` is the number, among the file's ``runs``, of the command that measured it.
    The file is replaced by an atomic rename, so a killed process leaves it as it was before the last record. One
    process at a time may write to a file.

    Args:
        folder: Where ``results.json`` is, or will be.
        run: What is to be kept of this command: its arguments, versions, the machine. It is written with the first new
            record; a command that measures nothing leaves the file as it is.

    Raises:
        ValueError: If the file is not one of this version, or a record lacks a field.

    Example:

        >>> import tempfile
        >>> key = dict(system_fingerprint="a", task_fingerprint="b", protocol="full", settings={}, seed=0)
        >>> record = key | dict(system="A", task="B", metrics={"accuracy": 0.5}, seconds=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ResultStore(folder).add(record)
        ...     ResultStore(folder).find(key)["metrics"]
        {'accuracy': 0.5}
    """

    def __init__(self, folder: str | Path, run: Mapping[str, Any] | None = None) -> None:
        self.path = Path(folder) / FILE_NAME
        self.run = dict(run or {})
        self.runs: list[dict[str, Any]] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._run_number: int | None = None
        if self.path.exists():
            self._read()

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records, in the order in which they were measured."""
        return list(self._records.values())

    def find(self, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
        """The record of a measurement.

        Args:
            wanted: At least the fields that make the key, see ``record_key``.

        Returns:
            The record, or None where it was not measured yet.

        Example:

            >>> key = dict(system_fingerprint="a", task_fingerprint="b", protocol="full", settings={}, seed=0)
            >>> ResultStore("no/such/folder").find(key) is None
            True
        """
        return self._records.get(record_key(wanted))

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record and write the file.

        Args:
            record: Of the fields above, less ``run``. A record of the same key is replaced.

        Raises:
            ValueError: If a field is missing, or the metrics are not finite numbers.

        Example:

            >>> ResultStore("folder").add(dict.fromkeys(FIELDS - {"seed"}))
            Traceback (most recent call last):
            ValueError: A record lacks ['seed']: ...
        """
        _check(record)
        if self._run_number is None:
            self.runs.append(self.run)
            self._run_number = len(self.runs) - 1
        self._records[record_key(record)] = {**record, "run": self._run_number}
        self._write()

    def take(self, other: ResultStore) -> None:
        """Take over the records of another store, with its runs and tasks, and write the file.

        Processes that measure at the same time write to files of their own; this puts them together.

        Args:
            other: Its records replace those of the same key.

        Example:

            >>> import tempfile
            >>> key = dict(system_fingerprint="a", task_fingerprint="b", protocol="full", settings={}, seed=0)
            >>> one, other = (ResultStore(tempfile.mkdtemp()) for _ in range(2))
            >>> other.add(key | dict(system="A", task="B", metrics={"accuracy": 0.5}, seconds=1.0))
            >>> one.take(other)
            >>> len(one.records)
            1
        """
        places = [_place(self.runs, run) for run in other.runs]
        self._records |= {key: {**record, "run": places[record["run"]]} for key, record in other._records.items()}
        self.tasks |= other.tasks
        self._write()

    def describe_task(self, fingerprint: str, description: Mapping[str, Any]) -> None:
        """Keep what a task is: it is written with the next record.

        Args:
            fingerprint: The task's.
            description: Its sizes, as ``describe_task`` of the runner gives them.

        Example:

            >>> store = ResultStore("no/such/folder")
            >>> store.describe_task("b", {"test": 10})
            >>> store.tasks
            {'b': {'test': 10}}
        """
        self.tasks[fingerprint] = dict(description)

    def _read(self) -> None:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            version = content["version"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is not a file of results ({error}). Move it away to start anew.") from error
        if version != VERSION:
            raise ValueError(f"{self.path} has version {version}, not {VERSION}. Move it away to start anew.")
        for record in content["records"]:
            _check(record)
            self._records[record_key(record)] = record
        self.runs, self.tasks = content["runs"], content["tasks"]

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = format_results(self.runs, self.tasks, self.records)
        unfinished = self.path.with_name(f".{FILE_NAME}.{os.getpid()}")
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, self.path)


def _place(runs: list[dict[str, Any]], run: dict[str, Any]) -> int:
    if run not in runs:
        runs.append(run)
    return runs.index(run)


def format_results(
    runs: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    records: Sequence[Mapping[str, Any]],
) -> str:
    """The text of a ``results.json``, a record a line: the file stays readable, and what a run adds shows in a diff.

    Args:
        runs: The commands that measured, what ``run`` in the records counts in.
        tasks: What the tasks consist of, by fingerprint.
        records: The records.

    Returns:
        JSON.

    Example:

        >>> json.loads(format_results([], {}, [{"system": "A"}]))["records"]
        [{'system': 'A'}]
    """
    run_lines = ",\n  ".join(json.dumps(run) for run in runs)
    task_lines = ",\n  ".join(f"{json.dumps(key)}: {json.dumps(task)}" for key, task in tasks.items())
    record_lines = ",\n  ".join(json.dumps(record) for record in records)
    return (
        f'{{"version": {VERSION},\n "runs": [\n  {run_lines}\n ],\n "tasks": {{\n  {task_lines}\n }},\n'
        f' "records": [\n  {record_lines}\n ]}}\n'
    )


def _check(record: Mapping[str, Any]) -> None:
    missing = sorted(FIELDS - set(record))
    if missing:
        raise ValueError(f"A record lacks {missing}: {str(dict(record))[:200]}")
    broken = [name for name, value in record["metrics"].items() if not abs(value) < float("inf")]
    if broken:
        raise ValueError(
            f"{record['system']} on {record['task']}, {record['protocol']}: {broken} is not a finite number."
        )
