"""The records: a line of JSON for each (task, system, encoder, per_label, draw), written as soon as it is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEY = ("task", "system", "encoder", "per_label", "draw")


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, none without a file. An incomplete last line of a killed process is removed."""
    if not path.exists():
        return []
    whole, newline, rest = path.read_text(encoding="utf-8").rpartition("\n")
    if rest:
        path.write_text(whole + newline, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def add_record(path: Path, record: dict[str, Any]) -> None:
    """Append a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
