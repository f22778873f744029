"""Collect the files that were not read, for one list at the end of a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from .failures import FailedFile

_collected: ContextVar[list[FailedFile] | None] = ContextVar("_collected", default=None)


@contextmanager
def collected_failures() -> Iterator[list[FailedFile]]:
    """Collect the files that are not read within the context."""
    failures: list[FailedFile] = []
    token = _collected.set(failures)
    try:
        yield failures
    finally:
        _collected.reset(token)


def collect(failures: Sequence[FailedFile]) -> None:
    """Add files to the list of the context, if there is one."""
    collected = _collected.get()
    if collected is not None:
        collected += [failure for failure in failures if failure not in collected]
