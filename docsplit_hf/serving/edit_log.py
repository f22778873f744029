"""EditLog: a file with one line for each step of an edit, written to the disk before the edit is acknowledged."""

from __future__ import annotations

import json
import logging
import os
from collections import OrderedDict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

logger = logging.getLogger(__name__)

LOG_NAME = "edits.jsonl"
KEPT_KEYS = 100_000  # idempotency keys in memory; the oldest are forgotten first

Step = Literal["begun", "done"]


@dataclass(frozen=True)
class AddedExample:
    """An example that an edit adds."""

    id: str
    text: str
    text_pair: str | None
    label: str | list[str]


@dataclass(frozen=True)
class EditContent:
    """What an edit does: examples to add, new labels by id, and ids to remove; or a fit."""

    kind: Literal["examples", "fit"]
    added: tuple[AddedExample, ...] = ()
    relabeled: tuple[tuple[str, str | list[str]], ...] = ()
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


@dataclass(frozen=True)
class FinishedEdit:
    """An acknowledged edit: the answer that a repeated request gets again."""

    request: str
    answer: dict[str, Any]


class EditLog:
    """The edits of a classifier, in ``edits.jsonl`` in its folder.

    An edit has two lines: ``begun``, with everything that it does, before the folder is saved, and ``done``, with the
    answer, before it is acknowledged; or ``refused``, if it was not saved. An edit without the second line was
    interrupted; it is finished at the next start, where it changes nothing that is there already.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_NAME
        self.unfinished: list[Edit] = []
        self._finished: OrderedDict[str, FinishedEdit] = OrderedDict()
        self._last_number = 0
        self._load()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.open(self.path, flags, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def finished(self, key: str | None) -> FinishedEdit | None:
        """The edit that was acknowledged under a key; None if there is none."""
        return None if key is None else self._finished.get(key)

    def begin(self, key: str | None, request: str, who: str, content: EditContent) -> Edit:
        """Write what an edit does."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        edit = Edit(self._last_number + 1, key, request, who, when, content)
        self._append({"step": "begun", **asdict(edit)})
        self._last_number = edit.number
        return edit

    def finish(self, edit: Edit, answer: dict[str, Any]) -> None:
        """Write that an edit is on the disk, and the answer that acknowledges it."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append({"step": "done", "number": edit.number, "when": when, "answer": answer})
        self._remember(edit, answer)

    def refuse(self, edit: Edit) -> None:
        """Write that an edit was not saved: the client got an error."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append({"step": "refused", "number": edit.number, "when": when})

    def _remember(self, edit: Edit, answer: dict[str, Any]) -> None:
        if edit.key is None:
            return
        self._finished[edit.key] = FinishedEdit(edit.request, answer)
        while len(self._finished) > KEPT_KEYS:
            self._finished.popitem(last=False)

    def _append(self, line: dict[str, Any]) -> None:
        """Write a line, and wait until it is on the disk."""
        content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        while content:
            content = content[os.write(self._file, content) :]
        os.fsync(self._file)

    def _load(self) -> None:
        """Read the file; a last line that was cut off by a crash is removed."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if len(complete) < len(content):
            logger.warning("The last line of %s was cut off by a crash, and is removed.", LOG_NAME)
            os.truncate(self.path, len(complete))
        begun: dict[int, Edit] = {}
        # Not str.splitlines: a text may contain other characters that end lines, such as U+2028.
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                self._read_line(json.loads(line), begun)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"Line {number} of {self.path} is not one of the edit log: {error!r}.") from error
        self.unfinished = list(begun.values())

    def _read_line(self, line: dict[str, Any], begun: dict[int, Edit]) -> None:
        if line["step"] == "begun":
            edit = _edit_of(line)
            begun[edit.number] = edit
            self._last_number = max(self._last_number, edit.number)
        elif line["step"] == "done":
            self._remember(begun.pop(line["number"]), line["answer"])
        elif line["step"] == "refused":
            del begun[line["number"]]
        else:
            raise ValueError(f"unknown step {line['step']!r}")


def _edit_of(line: dict[str, Any]) -> Edit:
    """The edit that a line describes."""
    given = line["content"]
    content = EditContent(
        kind=given["kind"],
        added=tuple(AddedExample(**example) for example in given["added"]),
        relabeled=tuple((row_id, label) for row_id, label in given["relabeled"]),
        removed=tuple(given["removed"]),
    )
    return Edit(line["number"], line["key"], line["request"], line["who"], line["when"], content)
