"""Disks on which there is no room."""

import contextlib
import resource
import subprocess

import pytest


@contextlib.contextmanager
def largest_file(size):
    """Let this process write the first ``size`` bytes of each file and no more, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def small_disk(place, size):
    """A file system of so many bytes, in memory; the test is skipped where it cannot be mounted."""
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root mounts file systems")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def filled(place):
    """Fill a file system to the last byte."""
    filler = place / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"0" * 4096):
            pass
    try:
        yield
    finally:
        filler.unlink()
