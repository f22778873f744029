"""Files of labels and of progress. Each row is a line, on disk before the next key is read."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from ...datastore.files.classifier_folder import FOLDER
from ...encoders.checkpoints.atomic_replacement import flush, locked, open_or_make, recover_own_save
from ...encoders.checkpoints.inside_folder import open_plain

LABELS = "labels.jsonl"
PROGRESS = "progress.jsonl"


class LabelRow(TypedDict):
    """A row of the labels file: a document that was labeled, or skipped (label None)."""

    id: str
    text: str
    text_pair: NotRequired[str]
    label: str | None
    time: str


class ProgressRow(TypedDict):
    """A row of the progress file: cross-validation metrics, without accuracy if there are too few examples."""

    labels: int  # given by hand
    examples: int
    held_out: int
    accuracy: NotRequired[float]
    low: NotRequired[float]  # of the 95% interval of accuracy
    high: NotRequired[float]
    macro_f1: NotRequired[float]
    answered_at_5: NotRequired[float]  # fraction of texts answered at an error rate of 5%


@contextlib.contextmanager
def labeling_folder(folder: Path) -> Iterator[None]:
    """Create or reopen a folder for labeling, and lock it for this process."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file: give a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not ((folder / LABELS).is_file() or has_classifier(folder)):
        raise ValueError(
            f"--output_dir {folder} is not empty, but has neither {LABELS} nor a classifier to continue with: give "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LABELS, wait=False))
        except BlockingIOError as error:
            raise ValueError(f"Another process labels in {folder}: end it first, or give another folder.") from error
        flush(folder)
        recover_own_save(folder)
        yield


def has_classifier(folder: Path) -> bool:
    """Return whether a classifier was saved in a folder."""
    return (folder / FOLDER).is_dir()


def read_rows(path: Path, *keys: str) -> list[dict[str, Any]]:
    """Read the rows of a file, each with these keys. An incomplete last line is removed, with a message."""
    content = path.read_bytes() if path.exists() else b""
    *lines, rest = content.split(b"\n")
    if rest:
        if _row(rest, keys) is not None:  # complete, but without a line break, as some editors save files
            lines.append(rest)
            append_line(path, b"\n")
        else:
            _truncate(path, len(content) - len(rest))
            print(f"The last line of {path} is incomplete, because its process was killed, and is removed.")
    rows = [_row(line, keys) for line in lines]
    if None in rows:
        number = rows.index(None) + 1
        wanted = ", ".join(keys)
        raise ValueError(
            f"Line {number} of {path} is not JSON with {wanted}: correct it, or give another --output_dir."
        )
    return rows


def append_row(path: Path, row: LabelRow | ProgressRow) -> None:
    """Append a row, and wait until it is on disk. If the disk is full, the file stays unchanged."""
    append_line(path, json.dumps(row, ensure_ascii=False).encode() + b"\n")


def append_line(path: Path, line: bytes) -> None:
    """Append bytes to a file, all of them or none."""
    with open(open_or_make(path), "r+b", buffering=0) as file:
        size_before = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) < len(line):
                raise OSError("the disk is full")
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(size_before)
            raise OSError(
                f"{path} cannot be written ({error}). Earlier labels are kept: free some space, then run the same "
                "command again."
            ) from error


def remove_last_row(path: Path) -> None:
    """Remove the last row of a file."""
    _truncate(path, path.read_bytes()[:-1].rfind(b"\n") + 1)


def _truncate(path: Path, length: int) -> None:
    with open(open_plain(path, os.O_RDWR), "r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _row(line: bytes, keys: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_row = isinstance(row, dict) and all(key in row for key in keys)
    return row if is_row and isinstance(row.get("label"), str | None) else None
