"""Lines of the manifest of sorted files, and the places of the files.

A folder of sorted files holds a sub-folder for each label, and ``manifest.jsonl`` with a line for each file: see
``SortedFile``. ``sorted_folder.py`` sorts files into it, and ``undo_sorting.py`` removes them.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ..content_hash import sha256_of_file
from ..reading.files.failure_lists import FAILED as FAILED_FILES
from ..storage.inside_folder import InsideFolder, UnsafeFolderError, is_plain
from .folder_names import FAILED, UNSURE, folded, folders_of_labels, free_name, safe_name

MANIFEST = "manifest.jsonl"
ANSWERS = "answers.csv"
REPORTS = (ANSWERS, FAILED_FILES)  # written beside the sorted files, and listed in the manifest without a source
FileState = Literal["same", "changed", "missing", "without original"]


@dataclass(frozen=True)
class SortedFile:
    """A line of the manifest: a file, and its place among the sorted files.

    ``source`` is None for the files in ``REPORTS``. ``target`` is relative to the folder. ``sha256`` is that of the
    file's content. ``page`` is the page that speaks most for the label, or a list of pages. ``link`` is ``"hard"`` if
    the file is a second name of the source.
    """

    source: str | None
    target: str
    label: str | None
    score: float | None
    page: Any
    reason: str | None
    sha256: str
    link: str | None
    time: str


def check_not_inside(folder: Path, source: Path) -> None:
    """Raise ValueError if a folder is a file, or lies inside the folder whose files are sorted into it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose another folder.")
    if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{folder} is inside {source}, whose files would be found again: choose another folder.")


def read_sorted(path: Path) -> list[SortedFile]:
    """Read a manifest; raise ValueError if a line is none of its lines.

    Of several lines for a file with the same content, the last one counts: a person has moved it.
    """
    entries: dict[tuple[str | None, str], SortedFile] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = SortedFile(**json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(
                f"Line {number} of {path} is no line of a manifest ({error}): nothing was changed."
            ) from error
        is_report = entry.source is None and entry.target in REPORTS
        texts = (entry.target if is_report else entry.source, entry.target, entry.sha256)
        are_texts = all(isinstance(text, str) for text in texts)
        if not is_report and not (are_texts and is_plain(entry.target) and "/" in entry.target):
            raise ValueError(f"Line {number} of {path} names the file {entry.target!r}: nothing was changed.")
        entries[entry.source, entry.target if is_report else entry.sha256] = entry
    return list(entries.values())


class Targets:
    """Chooses a free place for each file: the folder of its label, or that of unsure or of failed files.

    Args:
        folder: The folder with the sub-folders; None if nothing is there yet.
        labels: Labels that get a folder; others get one when they are first seen.
        planned: Files that have a place already.
    """

    def __init__(self, folder: Path | None, labels: Iterable[str], planned: Iterable[SortedFile] = ()) -> None:
        planned = list(planned)
        earlier = {entry.label: sub_folder_of(entry.target) for entry in planned if entry.label is not None}
        self.folders = folders_of_labels(labels, earlier)
        self._folder = folder
        self._taken: dict[str, set[str]] = {}
        for entry in planned:
            self._taken_in(sub_folder_of(entry.target)).add(folded(entry.target.partition("/")[2]))

    def choose(self, name: str, answer: Mapping[str, Any]) -> str:
        """Return the place of a file with this name, which is taken from now on."""
        label = answer["label"]
        if label is None:
            sub_folder = FAILED if answer["score"] is None else UNSURE
        else:
            if label not in self.folders:
                self.folders = folders_of_labels([label], self.folders)
            sub_folder = self.folders[label]
        taken = self._taken_in(sub_folder)
        free = free_name(safe_name(name), taken)
        taken.add(folded(free))
        return f"{sub_folder}/{free}"

    def _taken_in(self, sub_folder: str) -> set[str]:
        """The names that are taken in a sub-folder, in the form in which names are compared."""
        if sub_folder not in self._taken:
            self._taken[sub_folder] = set() if self._folder is None else _names_in(self._folder / sub_folder)
        return self._taken[sub_folder]


def planned_file(
    path: Path, sha256: str, answer: Mapping[str, Any], targets: Targets, link: str | None = None
) -> SortedFile:
    """Return the line of the manifest for a file with an answer."""
    return SortedFile(
        source=path.resolve().as_posix(),
        target=targets.choose(path.name, answer),
        label=answer["label"],
        score=answer["score"],
        page=answer.get("page", answer.get("pages")),
        reason=answer.get("reason"),
        sha256=sha256,
        link=link,
        time=now(),
    )


def sub_folder_of(target: str) -> str:
    """The first folder of a target."""
    return target.partition("/")[0]


def _names_in(folder: Path) -> set[str]:
    """The names of the entries of a folder, in the form in which names are compared."""
    return {folded(name) for name in os.listdir(folder)} if folder.is_dir() else set()


def report_line(folder: Path, name: str) -> SortedFile:
    """The line of the manifest for a file that is written beside the sorted ones."""
    nothing = dict.fromkeys(("source", "label", "score", "page", "reason", "link"))
    return SortedFile(target=name, sha256=sha256_of_file(folder / name), time=now(), **nothing)


def without_reports(entries: Iterable[SortedFile]) -> list[SortedFile]:
    """The lines of a manifest for files that have a source."""
    return [entry for entry in entries if entry.source is not None]


def now() -> str:
    """The time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def state_of(inside: InsideFolder, entry: SortedFile) -> FileState:
    """Whether a sorted file is as it was made."""
    try:
        with inside.parent_of(entry.target) as (parent, name):
            status = parent.status(name)
            if status is None:
                return "missing"
            is_linked = entry.link is not None and os.path.exists(entry.source)
            if is_linked and os.path.samestat(status, os.stat(entry.source)):
                return "same"
            is_same = stat.S_ISREG(status.st_mode) and parent.sha256(name) == entry.sha256
            return "same" if is_same else "changed"
    except FileNotFoundError:
        return "missing"
    except UnsafeFolderError:
        return "changed"


def manifest_lines(entries: Iterable[SortedFile]) -> str:
    """Write entries as the lines of a manifest, in ASCII: a name of a file may be in no encoding."""
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
