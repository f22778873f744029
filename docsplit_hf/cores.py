"""The number of cores that this process may use."""

from __future__ import annotations

import os


def core_count() -> int:
    """The cores that this process may use; where the system does not limit processes to some, all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
