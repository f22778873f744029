"""The number of cores that this process may use, and the threads that torch uses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The microseconds in which the container may compute, of all cores together, and their period (cgroup 2).
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def core_count() -> int:
    """The cores that this process may use; where the system does not limit processes to some, all of the machine.

    Of a container's quota only whole cores: with another thread, all of them would be halted in each period.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if CPU_QUOTA.is_file():
        quota, period = CPU_QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, max(int(quota) // int(period), 1))
    return cores


def thread_count() -> int:
    """The threads that torch uses for an operation, if it was imported; otherwise one for each core."""
    torch = sys.modules.get("torch")
    return core_count() if torch is None else torch.get_num_threads()


def use_threads(count: int) -> None:
    """Make torch, if it was imported, use this number of threads in the calling thread."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
