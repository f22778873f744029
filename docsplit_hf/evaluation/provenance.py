"""What a command ran on: kept with the results, and not part of what makes a result."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = ("docsplit_hf", "torch", "transformers", "scikit-learn", "numpy")


def describe_run(arguments: Sequence[str]) -> dict[str, str | dict[str, str]]:
    """``command``, ``date`` (ISO 8601, in UTC), ``ran_on`` and ``versions`` of a run, from its ``sys.argv``."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} threads"
    return {
        "command": shlex.join(["python", *arguments]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "ran_on": f"{processor()}, {device}",
        "versions": {"Python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in LIBRARIES},
    }


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*: (.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return named[1] if named else platform.processor() or platform.machine()
