"""The files of labeling by hand: one JSON line for each label, on the disk before the next document is shown."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docsplit_hf.models.checkpoints.atomic_replacement import finish_replacement
from docsplit_hf.models.checkpoints.lock import locked
from docsplit_hf.neighbors.store.files.classifier_folder import FOLDER

LABELS, PROGRESS = "labels.jsonl", "progress.jsonl"


@contextlib.contextmanager
def labeling_folder(folder: Path) -> Iterator[None]:
    """Make a folder to label in, or go on in one; no other process labels there meanwhile."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file: give a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not ((folder / LABELS).is_file() or has_classifier(folder)):
        raise ValueError(
            f"--output_dir {folder} is not empty, and holds neither {LABELS} nor a classifier to go on with: give "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LABELS, wait=False))
        except BlockingIOError as error:
            raise ValueError(f"Another process labels in {folder}: end it first, or give another folder.") from error
        flush(folder)
        finish_replacement(folder)
        yield


def has_classifier(folder: Path) -> bool:
    """Whether a classifier was saved in a folder."""
    return (folder / FOLDER).is_dir()


def read_rows(path: Path, *keys: str) -> list[dict[str, Any]]:
    """The rows of a file, each with these keys. What a killed process left of a line is cut off, which is printed."""
    content = path.read_bytes() if path.exists() else b""
    *lines, rest = content.split(b"\n")
    if rest:
        if _row(rest, keys) is not None:  # it is whole: an editor has left out the end of the line
            lines.append(rest)
            append_line(path, b"\n")
        else:
            _cut(path, len(content) - len(rest))
            print(f"The last line of {path} was half written when its process was killed, and is cut off.")
    rows = [_row(line, keys) for line in lines]
    if None in rows:
        number = rows.index(None) + 1
        wanted = ", ".join(keys)
        raise ValueError(f"Line {number} of {path} is no JSON with {wanted}: mend it, or give another --output_dir.")
    return rows


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Write one row, and wait until the disk has it; a full disk leaves the file as it was."""
    append_line(path, json.dumps(row, ensure_ascii=False).encode() + b"\n")


def append_line(path: Path, line: bytes) -> None:
    """Write bytes at the end of a file, all of them or none."""
    with open(path, "ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) < len(line):
                raise OSError("the disk is full")
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(before)
            raise OSError(f"{path} cannot be written ({error}); what was labeled before is kept.") from error


def take_back(path: Path) -> None:
    """Cut off the last row."""
    _cut(path, path.read_bytes()[:-1].rfind(b"\n") + 1)


def flush(path: Path) -> None:
    """Have the disk hold the names of a folder's files."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cut(path: Path, length: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _row(line: bytes, keys: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and all(key in row for key in keys)
    return row if is_row and isinstance(row.get("label"), str | None) else None
