"""Ranges of bytes of a file of lines, so that several readers share it without reading the whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

MOST_RANGES = 240  # which most numbers of processes and workers divide
SMALLEST_RANGE = 65_536  # bytes: of smaller ones, a good part would be read twice


def byte_ranges(size: int) -> list[tuple[int, int]]:
    """Where each range of a file begins and ends, in bytes: of nearly the same size, and one at least."""
    count = min(MOST_RANGES, max(1, size // SMALLEST_RANGE))
    return list(pairwise(size * i // count for i in range(count + 1)))


def lines_between(path: Path, start: int, end: int) -> Iterator[bytes]:
    """The lines that begin in a range, whole: each line of a file begins in one of its ranges."""
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        while file.tell() < end and (line := file.readline()):
            yield line
