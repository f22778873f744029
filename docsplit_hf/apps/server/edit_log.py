"""EditLog: a file with one line for each step of an edit, written to the disk before the edit is acknowledged."""

from __future__ import annotations

import json
import logging
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

logger = logging.getLogger(__name__)

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
class Edit:
    """An edit: who made it, when, and what it does."""

    number: int
    key: str | None  # idempotency key
    request: str  # SHA-256 of the request, by which a key that is used twice is recognized
    who: str
    when: str
    content: EditContent


class EditLog:
    """The edits of a classifier, in ``edits.jsonl`` in its folder, locked for this process.

    An edit has two lines: ``begun``, with everything that it does, before the folder is saved, and ``done``, with the
    answer, before it is acknowledged. An edit without the second line was interrupted, and is finished later, where it
    changes nothing that is there already; or it is set aside by a line ``refused``, if it no longer fits.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / EDIT_LOG
        self._begun: dict[int, Edit] = {}
        self._finished: OrderedDict[str, tuple[str, dict[str, Any]]] = OrderedDict()
        self._last_number = 0
        with ExitStack() as opened:
            # The folder may come from a stranger, so the file is opened once, and never through a link.
            self._file = open_plain(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode=0o600)
            opened.callback(os.close, self._file)
            opened.enter_context(locked(self.path, wait=False))
            self._load()
            self._last_line = self._size  # where the last line that was appended begins
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    @property
    def unfinished(self) -> list[Edit]:
        """The edits that were interrupted, the first one first."""
        return list(self._begun.values())

    def is_in_place(self) -> bool:
        """Whether the open file is still the one in the folder: the folder may have been moved or replaced."""
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._file))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def finished(self, key: str | None) -> tuple[str, dict[str, Any]] | None:
        """The SHA-256 of the request that was acknowledged under a key, and its answer; None if there is none."""
        return None if key is None else self._finished.get(key)

    def begin(self, key: str | None, request: str, who: str, content: EditContent) -> Edit:
        """Write what an edit does."""
        edit = Edit(self._last_number + 1, key, request, who, _now(), content)
        self._append({"step": "begun", **asdict(edit)})
        self._begun[edit.number] = edit
        self._last_number = edit.number
        return edit

    def withdraw(self, edit: Edit) -> None:
        """Cut off the line of the edit that was just begun, because it was not saved; a full disk has room for that."""
        self._cut(self._last_line)
        del self._begun[edit.number]

    def finish(self, edit: Edit, answer: dict[str, Any]) -> None:
        """Write that an edit is on the disk, and the answer that acknowledges it."""
        self._append({"step": "done", "number": edit.number, "when": _now(), "answer": answer})
        del self._begun[edit.number]
        self._remember(edit, answer)

    def set_aside(self, edit: Edit, reason: str) -> None:
        """Write that an interrupted edit is not made, and why."""
        self._append({"step": "refused", "number": edit.number, "when": _now(), "reason": reason})
        del self._begun[edit.number]

    def _remember(self, edit: Edit, answer: dict[str, Any]) -> None:
        if edit.key is None:
            return
        self._finished[edit.key] = (edit.request, answer)
        while len(self._finished) > KEPT_KEYS:
            self._finished.popitem(last=False)

    def _append(self, line: dict[str, Any]) -> None:
        """Write a line, and wait until it is on the disk; if that fails, as on a full one, cut it off."""
        content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        self._cut(self._size)  # what is left if the last line could not be cut off
        try:
            rest = content
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except BaseException:
            self._cut(self._size)
            raise
        self._last_line = self._size
        self._size += len(content)

    def _cut(self, size: int) -> None:
        """Cut off what follows after so many bytes."""
        if os.fstat(self._file).st_size > size:
            os.ftruncate(self._file, size)
            os.fsync(self._file)
        self._size = size

    def _load(self) -> None:
        """Read the file; an incomplete last line is removed."""
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            logger.warning("The last line of %s is incomplete, as after a crash, and is removed.", EDIT_LOG)
        self._cut(len(complete))
        # Not str.splitlines: a text may contain other characters that end lines, such as U+2028.
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                self._read_line(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(
                    f"Line {number} of {self.path} is not one of the edit log ({error!r}): correct it, or move the "
                    "file away, and a new one is begun."
                ) from error

    def _read_line(self, line: dict[str, Any]) -> None:
        if line["step"] == "begun":
            edit = _edit_of(line)
            self._begun[edit.number] = edit
            self._last_number = max(self._last_number, edit.number)
        elif line["step"] == "done":
            self._remember(self._begun.pop(line["number"]), line["answer"])
        elif line["step"] == "refused":
            del self._begun[line["number"]]
        else:
            raise ValueError(f"unknown step {line['step']!r}")


def _now() -> str:
    """The time of a line."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _edit_of(line: dict[str, Any]) -> Edit:
    """The edit that a line describes."""
    given = line["content"]
    content = EditContent(
        kind=given["kind"],
        added=tuple(LoggedExample(**example) for example in given["added"]),
        relabeled=dict(given["relabeled"]),  # earlier releases wrote pairs
        removed=tuple(given["removed"]),
    )
    return Edit(line["number"], line["key"], line["request"], line["who"], line["when"], content)
