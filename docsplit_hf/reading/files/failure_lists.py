"""Lists of the files that were not read: in the log, in a CSV file, and at the end of a command."""

from __future__ import annotations

import csv
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ..characters import replace_lone_surrogates
from ..csv_files import harmless_cell
from .failures import FailedFile

logger = logging.getLogger(__name__)

FAILED_LIST = "failed.csv"  # in the folder of a command's results
SHOWN_FAILURES = 5

_collected: ContextVar[list[FailedFile] | None] = ContextVar("_collected", default=None)


@contextmanager
def list_of_failures(folder: str | Path) -> Iterator[None]:
    """List the files that are not read within the context in ``failed.csv`` in a folder, and print their number."""
    failures: list[FailedFile] = []
    token = _collected.set(failures)
    try:
        yield
    finally:
        _collected.reset(token)
    if failures:
        path = Path(folder) / FAILED_LIST
        path.parent.mkdir(parents=True, exist_ok=True)
        write_failures(failures, path)
        print(f"Files that could not be read: {len(failures):,}, listed with their reasons in {path}.")


def report_failures(failures: Sequence[FailedFile], count: int, failed_file: str | Path | None = None) -> None:
    """Log the number of failures by reason, and write them into a CSV file where one is asked for."""
    collected = _collected.get()
    if collected is not None:
        collected += [failure for failure in failures if failure not in collected]
    if failed_file is not None:
        write_failures(failures, failed_file)
    if not failures:
        return
    by_reason = Counter(failure.reason for failure in failures)
    counts = "\n".join(
        f"  {number} {reason}. {next(failure.remedy for failure in failures if failure.reason == reason)}"
        for reason, number in by_reason.most_common()
    )
    shown = "\n".join(f"  {line_of(failure)}" for failure in failures[:SHOWN_FAILURES])
    shown = replace_lone_surrogates(shown)  # of names that are no UTF-8, which no terminal could show
    rest = f"\n  ... all in {failed_file}" if failed_file is not None and len(failures) > SHOWN_FAILURES else ""
    logger.warning(f"{len(failures)} of {count} files are not read:\n{counts}\nFor example:\n{shown}{rest}")


def write_failures(failures: Sequence[FailedFile], path: str | Path) -> None:
    """Write failures into a CSV file, in which no cell is run as a formula by a spreadsheet; a link is replaced."""
    Path(path).unlink(missing_ok=True)
    with open(path, "x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FailedFile._fields)
        for failure in failures:
            writer.writerow([harmless_cell(replace_lone_surrogates(str(value))) for value in failure])


def line_of(failure: FailedFile) -> str:
    """A failure in a line."""
    detail = f" ({failure.detail})" if failure.detail else ""
    return f"{failure.file}: {failure.reason}{detail}"
