"""EditLog: a file with a line for each edit, written to the disk before the folder is saved."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ...storage.atomic_replacement import locked
from ...storage.forgetting import EDIT_LOG
from ...storage.inside_folder import open_plain

KEPT_KEYS = 100_000  # idempotency keys in memory; the oldest are forgotten first


@dataclass(frozen=True)
class LoggedExample:
    """A text with a label; its id is None until it is added."""

    id: str | None
    text: str
    text_pair: str | None
    label: str | list[str]


@dataclass(frozen=True)
class EditContent:
    """What an edit does: examples to add, new labels by id, and ids to remove; or a fit."""

    kind: Literal["examples", "fit"]
    added: tuple[LoggedExample, ...] = ()
    relabeled: Mapping[str, str | list[str]] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class EditRequest:
    """Who sends a request, its idempotency key, and its SHA-256, by which a key that is used twice is recognized."""

    who: str
    key: str | None
    digest: str


class EditLog:
    """The edits of a classifier, in ``edits.jsonl`` in its folder, locked for this process.

    A line has who made an edit, when, what it does, the version that it changes, and the answer. So if a process is
    killed, the last edit was made unless its version is still the one in the folder; then its line is cut off.

    Args:
        folder: The folder.
        version: The version in the folder.
    """

    def __init__(self, folder: Path, version: str) -> None:
        self.path = folder / EDIT_LOG
        self.count = 0
        self._answered: OrderedDict[str, tuple[str, dict[str, Any]]] = OrderedDict()
        self._size = 0
        self._last_line = 0  # where the last line begins
        with ExitStack() as opened:
            # The folder may come from a stranger, so the file is opened once, and never through a link.
            self._file = open_plain(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode=0o600)
            opened.callback(os.close, self._file)
            opened.enter_context(locked(self.path, wait=False))
            self._load(version)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def is_in_place(self) -> bool:
        """Whether the open file is still the one in the folder: the folder may have been moved or replaced."""
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._file))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def answer_to(self, key: str | None) -> tuple[str, dict[str, Any]] | None:
        """The SHA-256 of the request that was answered under a key, and the answer; None if there is none."""
        return None if key is None else self._answered.get(key)

    def begin(self, request: EditRequest, version: str, content: EditContent, answer: dict[str, Any]) -> None:
        """Write an edit of a version, and wait until it is on the disk; if that fails, nothing is left of it."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        edit = {**asdict(request), "when": when, "version": version, "content": asdict(content), "answer": answer}
        rest = json.dumps(edit, ensure_ascii=False).encode() + b"\n"
        self._cut(self._size)  # what is left of a line that could not be cut off
        size = self._size + len(rest)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except BaseException:
            self._cut(self._size)
            raise
        self._last_line = self._size
        self._size = size
        self._remember(edit)

    def withdraw(self, request: EditRequest) -> None:
        """Cut off the edit that was just begun, because it was not saved; a full disk has room for that."""
        self._cut(self._last_line)
        self._answered.pop(request.key, None)
        self.count -= 1

    def _remember(self, edit: dict[str, Any]) -> None:
        self.count += 1
        key = edit.get("key")
        if key is not None and "answer" in edit:  # lines of earlier versions have none
            self._answered[key] = (edit["digest"], edit["answer"])
        while len(self._answered) > KEPT_KEYS:
            self._answered.popitem(last=False)

    def _cut(self, size: int) -> None:
        """Cut off what follows after so many bytes."""
        if os.fstat(self._file).st_size > size:
            os.ftruncate(self._file, size)
            os.fsync(self._file)
        self._size = size

    def _load(self, version: str) -> None:
        """Read the file; a last line that is incomplete, or of an edit that was not made, is cut off."""
        with open(self._file, "rb", closefd=False) as file:
            # Not str.splitlines: a text may contain other characters that end lines, such as U+2028.
            lines = file.read().splitlines(keepends=True)
        size = 0
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                edit = json.loads(line)
                if number == len(lines) and edit.get("version") == version:
                    break
                self._remember(edit)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ValueError(
                    f"Line {number} of {self.path} is not one of the edit log ({error!r}): correct it, or move the "
                    "file away, and a new one is begun."
                ) from error
            size += len(line)
        self._cut(size)
