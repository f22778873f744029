"""What a command ran on: kept with the results, and not part of what makes a result."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
from collections.abc import Sequence

LIBRARIES = ("docsplit_hf", "torch", "transformers", "scikit-learn", "numpy")


def describe_run(arguments: Sequence[str]) -> dict[str, str | dict[str, str]]:
    """The command, the day, the processor or accelerator, and the versions of what decides the numbers.

    Args:
        arguments: As ``sys.argv`` has them.

    Returns:
        ``command``, ``date`` (ISO 8601, in UTC), ``ran_on`` and ``versions``.

    Example:

        >>> describe_run(["examples/run_evaluation.py", "--tasks", "a b"])["command"]
        "python examples/run_evaluation.py --tasks 'a b'"
    """
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
    """The name of the processor.

    Returns:
        What the system calls it.

    Example:

        >>> len(processor()) > 0
        True
    """
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
