"""Lines of the manifest of sorted files, and the places of the files.

A folder of sorted files holds a sub-folder for each label, and ``manifest.jsonl`` with a line for each file: see
``SortedFile``. ``sorted_folder.py`` sorts files into it, and ``undo_sorting.py`` removes them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...reading.files.failure_lists import FAILED_LIST
from ...reading.origins import describe_place
from ...storage.inside_folder import is_plain
from .folder_names import FAILED_FOLDER, UNSURE_FOLDER, folded, folders_of_labels, free_name, safe_name

MANIFEST = "manifest.jsonl"
ANSWERS = "answers.csv"
REPORTS = (ANSWERS, FAILED_LIST)  # written beside the sorted files, and listed in the manifest without a source
NOT_SURE = "not sure enough"
SHOWN_WORDS = 3


def now() -> str:
    """The time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class SortedFile:
    """A line of the manifest: a file, the answer to it, and its place among the sorted files.

    ``source`` is None for the files in ``REPORTS``. ``target`` is relative to the folder. ``sha256`` is that of the
    file's content. ``page`` names the page that speaks most for the label.
    """

    source: str | None
    target: str
    label: str | None = None
    score: float | None = None
    page: Any = None
    reason: str | None = None
    sha256: str
    time: str = field(default_factory=now)

    def remark(self) -> str:
        """The confidence, the page and the reason of the answer, in brackets."""
        score = None if self.score is None else f"{self.score:.0%}"
        page = f"page {self.page}" if str(self.page)[0].isdigit() else self.page
        parts = [part for part in (score, page, self.reason) if part]
        return f" ({'; '.join(parts)})" if parts else ""


def sub_folder_of(target: str) -> str:
    """The first folder of a target."""
    return target.partition("/")[0]


def count_by_folder(entries: Iterable[SortedFile]) -> dict[str, int]:
    """Count the files of each sub-folder."""
    return dict(sorted(Counter(sub_folder_of(entry.target) for entry in entries).items()))


def page_of(answer: Mapping[str, Any]) -> str | None:
    """Name the page of an answer: its number, several, or "sheet Prices"; None if it is not known."""
    return describe_place(answer).removeprefix("pages ").removeprefix("page ") or None


def reason_of(answer: Mapping[str, Any]) -> str | None:
    """Say why an answer is as it is: why a file has no label, or the words for and against it, if asked for."""
    if answer.get("reason"):
        detail = answer.get("detail")
        return f"{answer['reason']} ({detail})" if detail else answer["reason"]
    if answer["label"] is None:
        return NOT_SURE
    sides = {"": decisive_words(answer), "against it: ": decisive_words(answer, "words_against")}
    return "; ".join(f"{lead}{', '.join(words)}" for lead, words in sides.items() if words) or None


def decisive_words(answer: Mapping[str, Any], side: str = "words") -> list[str]:
    """The words that speak most for an answer, or against it ("words_against"), if they were asked for."""
    return [one["word"] for one in answer.get("explanation", {}).get(side, ())][:SHOWN_WORDS]


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
            values = dict(json.loads(line))
            values.pop("link", None)  # of earlier versions, which could make hard links
            entry = SortedFile(**values)
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
        if label is not None and label not in self.folders:
            self.folders = folders_of_labels([label], self.folders)
        without_label = FAILED_FOLDER if answer["score"] is None else UNSURE_FOLDER
        sub_folder = without_label if label is None else self.folders[label]
        taken = self._taken_in(sub_folder)
        free = free_name(safe_name(name), taken)
        taken.add(folded(free))
        return f"{sub_folder}/{free}"

    def _taken_in(self, sub_folder: str) -> set[str]:
        """The names that are taken in a sub-folder, in the form in which names are compared."""
        if sub_folder not in self._taken:
            is_there = self._folder is not None and (self._folder / sub_folder).is_dir()
            names = os.listdir(self._folder / sub_folder) if is_there else []
            self._taken[sub_folder] = {folded(name) for name in names}
        return self._taken[sub_folder]


def manifest_lines(entries: Iterable[SortedFile]) -> str:
    """Write entries as the lines of a manifest, in ASCII: a name of a file may be in no encoding."""
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
