"""Shared code of the benchmarks on a GPU: the card, its memory, and records with the date."""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.speed.side_by_side import ran_on

GIGABYTE = 10**9


class Card(NamedTuple):
    """The GPU, or the CPU of a dry run."""

    name: str
    memory_gb: float  # 0 on a CPU

    def describe(self) -> str:
        """Its name and memory."""
        return f"{self.name} ({self.memory_gb * GIGABYTE / 2**30:.0f} GiB)" if self.memory_gb else self.name


def this_card() -> Card:
    """The GPU of this process."""
    if not torch.cuda.is_available():
        return Card("CPU", 0)
    properties = torch.cuda.get_device_properties(0)
    return Card(properties.name, properties.total_memory / GIGABYTE)


def append_record(file: Path, record: Mapping[str, object]) -> None:
    """Add a line to a JSONL file, with the card, the versions and the date."""
    about = {
        "card": this_card().describe(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "date": datetime.date.today().isoformat(),
        "ran_on": ran_on(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({**record, **about}) + "\n")
