"""The number of cores that this process may use, and the threads that torch uses."""

from __future__ import annotations

import os
import sys


def core_count() -> int:
    """The cores that this process may use; where the system does not limit processes to some, all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """The threads that torch uses for an operation, if it was imported; otherwise one for each core."""
    torch = sys.modules.get("torch")
    return core_count() if torch is None else torch.get_num_threads()


def use_threads(count: int) -> None:
    """Make torch, if it was imported, use this number of threads in the calling thread."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
