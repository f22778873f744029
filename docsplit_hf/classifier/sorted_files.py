"""Files sorted into sub-folders by label, with a manifest by which the sorting can be finished, and undone.

A folder holds a sub-folder for each label, and ``manifest.jsonl`` with a line for each file: see ``SortedFile``. The
manifest is written before any file, as ``manifest.partial.jsonl``, and renamed when all files are there. So a run that
was killed can be finished without duplicates. A watched folder appends to it instead: see ``sorted_folder.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..content_hash import sha256_of_file
from ..reading.files.failure_lists import FAILED as FAILED_FILES
from ..storage.inside_folder import InsideFolder, UnsafeFolderError, is_plain, write_file
from .folder_names import FAILED, UNSURE, folded, folders_of_labels, free_name, safe_name

MANIFEST = "manifest.jsonl"
UNFINISHED = "manifest.partial.jsonl"
ANSWERS = "answers.csv"
REPORTS = (ANSWERS, FAILED_FILES)  # written beside the sorted files, and listed in the manifest without a source
Link = Literal["hard", "symbolic"]
FileState = Literal["same", "changed", "missing", "without original"]
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")  # the name of a file that is being copied


@dataclass(frozen=True)
class SortedFile:
    """A line of the manifest: a file, and its place among the sorted files.

    ``source`` is None for the files in ``REPORTS``. ``target`` is relative to the folder. ``sha256`` is that of the
    file's content. ``page`` is the page that speaks most for the label, or a list of pages.
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


class Sorted(NamedTuple):
    """Numbers of files."""

    files: int  # in the manifest
    by_folder: dict[str, int]
    renamed: int  # got a number, because another file has the same name
    resumed: int  # were there already, from a run that was killed
    missing: int  # of files that are gone, or are no regular files


def check_sorted_folder(folder: Path, source: Path) -> None:
    """Raise ValueError if files cannot be sorted into a folder."""
    if (folder / MANIFEST).exists():
        raise ValueError(
            f"{folder} has sorted files already: choose another folder, or remove them by: docsplit undo {folder} "
            "(what it keeps must be moved away, before it is run again)."
        )
    check_not_inside(folder, source)


def check_not_inside(folder: Path, source: Path) -> None:
    """Raise ValueError if a folder is a file, or lies inside the folder whose files are sorted into it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose another folder.")
    if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{folder} is inside {source}, whose files would be found again: choose another folder.")


def sort_files(
    answers: Iterable[Mapping[str, Any]],
    paths: Sequence[Path],
    folder: Path,
    link: Link | None = None,
    reports: Sequence[str] = (),
) -> Sorted:
    """Sort files into sub-folders of a folder by their answers, or finish a run that was killed.

    Files that came after that run are sorted, too.

    Args:
        answers: The answers, each with ``label`` and ``score``.
        paths: The file of each answer.
        folder: The folder.
        link: None to copy files; ``"hard"`` or ``"symbolic"`` to link to them.
        reports: The names of those ``REPORTS`` that this run has written into the folder; undoing removes them, too.

    Returns:
        The numbers of files.

    Raises:
        ValueError: If the folder has an unfinished sorting of other answers, or a file has changed in the meantime.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / UNFINISHED
    answers = list(answers)
    entries = without_reports(read_sorted(unfinished)) if unfinished.exists() else []
    _check_same(entries, answers, paths, folder)
    entries += _plan(answers, paths, entries, folder, link)
    write_file(unfinished, manifest_lines([*entries, *(_report(folder, name) for name in reports)]))
    resumed = 0
    by_folder: dict[str, int] = {}
    with InsideFolder.opened(folder) as inside:
        remove_left_overs(inside, entries)
        for entry in entries:
            resumed += _put(inside, entry)
            sub_folder = sub_folder_of(entry.target)
            by_folder[sub_folder] = by_folder.get(sub_folder, 0) + 1
    os.replace(unfinished, folder / MANIFEST)
    renamed = sum(Path(entry.target).name != safe_name(Path(entry.source).name) for entry in entries)
    return Sorted(len(entries), dict(sorted(by_folder.items())), renamed, resumed, len(answers) - len(entries))


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


def _plan(
    answers: Sequence[Mapping[str, Any]],
    paths: Sequence[Path],
    planned: Sequence[SortedFile],
    folder: Path,
    link: Link | None,
) -> list[SortedFile]:
    """Choose the target of each file that is not planned yet."""
    labels = {answer["label"] for answer in answers if answer["label"] is not None}
    targets = Targets(folder, labels, planned)
    sources = {entry.source for entry in planned}
    entries = []
    for path, answer in zip(paths, answers, strict=True):
        if path.resolve().as_posix() not in sources and path.is_file():
            entries.append(planned_file(path, answer, targets, link))
    return entries


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


def planned_file(path: Path, answer: Mapping[str, Any], targets: Targets, link: Link | None = None) -> SortedFile:
    """Return the line of the manifest for a file with an answer."""
    return SortedFile(
        source=path.resolve().as_posix(),
        target=targets.choose(path.name, answer),
        **_part_of_answer(answer),
        sha256=sha256_of_file(path),
        link=link,
        time=now(),
    )


def sub_folder_of(target: str) -> str:
    """The first folder of a target."""
    return target.partition("/")[0]


def _names_in(folder: Path) -> set[str]:
    """The names of the entries of a folder, in the form in which names are compared."""
    return {folded(name) for name in os.listdir(folder)} if folder.is_dir() else set()


def _report(folder: Path, name: str) -> SortedFile:
    """The line of the manifest for a file that is written beside the sorted ones."""
    return SortedFile(
        source=None,
        target=name,
        label=None,
        score=None,
        page=None,
        reason=None,
        sha256=sha256_of_file(folder / name),
        link=None,
        time=now(),
    )


def without_reports(entries: Iterable[SortedFile]) -> list[SortedFile]:
    """The lines of a manifest for files that have a source."""
    return [entry for entry in entries if entry.source is not None]


def now() -> str:
    """The time in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _part_of_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a line of the manifest that come from an answer."""
    return {
        "label": answer["label"],
        "score": answer["score"],
        "page": answer.get("page", answer.get("pages")),
        "reason": answer.get("reason"),
    }


def _check_same(
    entries: Sequence[SortedFile],
    answers: Sequence[Mapping[str, Any]],
    paths: Sequence[Path],
    folder: Path,
) -> None:
    """Raise ValueError if an unfinished manifest has other files than these, or other answers."""
    given = {path.resolve().as_posix(): answer for path, answer in zip(paths, answers, strict=True)}
    for entry in entries:
        answer = given.get(entry.source)
        if answer is None or any(getattr(entry, name) != value for name, value in _part_of_answer(answer).items()):
            raise ValueError(
                f"An earlier run did not finish sorting other files or answers into {folder}, such as {entry.source}: "
                f"remove those by docsplit undo {folder} (what it keeps must be moved away, before it is run again), "
                "or choose another folder."
            )


def _put(inside: InsideFolder, entry: SortedFile) -> bool:
    """Copy or link a file to its target; return whether it was there already."""
    with inside.parent_of(entry.target, make=True) as (parent, name):
        if parent.status(name) is not None:
            if state_of(inside, entry) == "same":
                return True
            raise ValueError(
                f"{inside.path / entry.target} was changed while files were sorted: move it away, and run the command "
                "again."
            )
        if entry.link is not None:
            parent.make_link(name, Path(entry.source), symbolic=entry.link == "symbolic")
            return False
        temporary = f".{name}.{uuid.uuid4().hex}.tmp"
        try:
            copy_file(parent, temporary, entry)
            parent.move_to(parent, temporary, name)
        finally:
            if parent.status(temporary) is not None:
                parent.remove(temporary)
    return False


def copy_file(parent: InsideFolder, name: str, entry: SortedFile) -> None:
    """Copy a file with its time of modification, and check its content."""
    descriptor = parent.open_file(name, os.O_WRONLY | os.O_CREAT)
    with open(entry.source, "rb") as source, open(descriptor, "wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        status = os.fstat(source.fileno())
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    if parent.sha256(name) != entry.sha256:
        raise ValueError(f"{entry.source} was changed while files were sorted: undo the sorting, and start again.")


def state_of(inside: InsideFolder, entry: SortedFile) -> FileState:
    """Whether a sorted file is as it was made."""
    try:
        with inside.parent_of(entry.target) as (parent, name):
            status = parent.status(name)
            if status is None:
                return "missing"
            if stat.S_ISLNK(status.st_mode):
                is_same = entry.link == "symbolic" and parent.link_target(name) == entry.source
                return "same" if is_same else "changed"
            if not stat.S_ISREG(status.st_mode) or entry.link == "symbolic":
                return "changed"
            if entry.link == "hard" and _is_same_file(status, entry.source):
                return "same"
            return "same" if parent.sha256(name) == entry.sha256 else "changed"
    except FileNotFoundError:
        return "missing"
    except UnsafeFolderError:
        return "changed"


def _is_same_file(status: os.stat_result, source: str) -> bool:
    """Whether an entry is a second name of a file."""
    try:
        return os.path.samestat(status, os.stat(source))
    except OSError:
        return False


def remove_left_overs(inside: InsideFolder, entries: Iterable[SortedFile]) -> None:
    """Remove temporary files that a killed run has left."""
    for sub_folder in {sub_folder_of(entry.target) for entry in entries}:
        with contextlib.suppress(FileNotFoundError), inside.subfolder(sub_folder) as parent:
            for name in parent.names():
                if TEMPORARY.fullmatch(name):
                    parent.remove(name)


def manifest_lines(entries: Iterable[SortedFile]) -> str:
    """Write entries as the lines of a manifest, in ASCII: a name of a file may be in no encoding."""
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
