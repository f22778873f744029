"""SortedFolder: a folder that files are sorted into, at once or one after another, and in which a person moves files.

Its state is the manifest, to which lines are only appended. A file is copied under a temporary name, then its line is
forced onto the disk, then the copy gets its name. So after a kill, a copy with a line gets its name, and a file without
a line is copied again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...content_hash import sha256_of_file
from ...reading.files.finding import ALL_FILES, files_in
from ...storage.atomic_replacement import locked
from ...storage.inside_folder import InsideFolder, open_plain
from .folder_names import safe_name
from .sorted_files import (
    MANIFEST,
    SortedFile,
    Targets,
    count_by_folder,
    manifest_lines,
    page_of,
    read_sorted,
    reason_of,
    sub_folder_of,
)

logger = logging.getLogger(__name__)

FILES_AT_A_TIME = 64  # whose lines are written together; a killed run copies at most these again
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")  # the name of a file that is being copied


class Sorted(NamedTuple):
    """Numbers of files."""

    files: int  # that were sorted now
    by_folder: dict[str, int]
    renamed: int  # got a number, because another file has the same name
    known: int  # were there already, with the label of then
    missing: int  # that are gone, were changed meanwhile, or are no regular files


class Move(NamedTuple):
    """A file that a person has moved: its line of the manifest, its new place, and the label of that folder."""

    entry: SortedFile
    target: str
    label: str | None  # None if the folder belongs to no label


class SortedFolder:
    """The files that were sorted into a folder: their lines of the manifest, by source and checksum.

    Args:
        path: The folder.
        inside: The same folder, opened and locked; None to read only.
    """

    def __init__(self, path: Path, inside: InsideFolder | None = None) -> None:
        self.path = path
        self._inside = inside
        self.entries: dict[tuple[str, str], SortedFile] = {}
        manifest = path / MANIFEST
        self._keep(read_sorted(manifest) if manifest.exists() else [])

    def _keep(self, entries: Iterable[SortedFile]) -> None:
        """Keep lines of the manifest, without those of reports."""
        self.entries |= {(entry.source, entry.sha256): entry for entry in entries if entry.source is not None}

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Open and lock a folder within the context, and finish what a killed process has left.

        Raises:
            ValueError: If another process sorts files into it, or its manifest is damaged.
        """
        path.mkdir(parents=True, exist_ok=True)
        manifest = path / MANIFEST
        with (
            locked(manifest, refusal=f"Another process sorts files into {path}: stop it first."),
            InsideFolder.opened(path) as inside,
        ):
            with open(open_plain(manifest, os.O_RDWR), "r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)  # a last line that a power cut has left incomplete
            folder = cls(path, inside)
            for entry in list(folder.entries.values()):
                with contextlib.suppress(FileNotFoundError):
                    folder._give_name(entry)
            remove_left_overs(inside, folder.entries.values())
            yield folder

    def targets(self, labels: Iterable[str] = ()) -> Targets:
        """Free places, as the folder is now, in the folders of labels."""
        return Targets(self.path, labels, self.entries.values())

    def knows(self, path: Path, sha256: str) -> bool:
        """Whether a file was sorted with this content."""
        return (path.resolve().as_posix(), sha256) in self.entries

    def plan(
        self,
        paths: Sequence[Path],
        answers: Iterable[Mapping[str, Any]],
        labels: Iterable[str] = (),
    ) -> dict[Path, SortedFile]:
        """Plan the places of files that were not sorted yet, by their answers; files that are gone are left out."""
        answers = list(answers)
        targets = self.targets({*labels, *(one["label"] for one in answers if one["label"] is not None)})
        planned: dict[Path, SortedFile] = {}
        for path, answer in zip(paths, answers, strict=True):
            sha256 = sha256_of_present(path)
            if sha256 and not self.knows(path, sha256):
                planned[path] = SortedFile(
                    source=path.resolve().as_posix(),
                    target=targets.choose(path.name, answer),
                    label=answer["label"],
                    score=answer["score"],
                    page=page_of(answer),
                    reason=reason_of(answer),
                    sha256=sha256,
                )
        return planned

    def put(self, planned: Sequence[SortedFile]) -> list[SortedFile]:
        """Copy files to their places; return the lines of those that were not changed or deleted meanwhile."""
        copied = [entry for entry in planned if self._copy(entry)]
        self.append(copied)
        for entry in copied:
            self._give_name(entry)
        return copied

    def moves(self, labels: Iterable[str]) -> list[Move]:
        """Find the files that a person has moved to other places of the folder, and the labels of their folders."""
        found = {path.relative_to(self.path).as_posix() for path in files_in(self.path, ALL_FILES, Counter())}
        gone = [entry for entry in self.entries.values() if entry.target not in found]
        if not gone:
            return []
        new = found - {entry.target for entry in self.entries.values()}
        place_of = {sha256_of_present(self.path / name): name for name in new if "/" in name}
        label_of = {sub_folder: label for label, sub_folder in self.targets(labels).folders.items()}
        targets = [(entry, place_of.pop(entry.sha256, None)) for entry in gone]
        return [Move(entry, name, label_of.get(sub_folder_of(name))) for entry, name in targets if name is not None]

    def append(self, entries: Sequence[SortedFile]) -> None:
        """Append lines to the manifest, all or none, and wait until they are on the disk."""
        descriptor = open_plain(self.path / MANIFEST, os.O_WRONLY | os.O_APPEND)
        with open(descriptor, "ab") as file:
            before = os.fstat(descriptor).st_size
            try:
                file.write(manifest_lines(entries).encode())
                file.flush()
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        self._keep(entries)

    def _copy(self, entry: SortedFile) -> bool:
        """Copy a file under its temporary name; return whether it is still the same."""
        with self._inside.parent_of(entry.target, make=True) as (parent, name):
            temporary = _temporary_name(entry, name)
            parent.discard(temporary)
            try:
                copy_file(parent, temporary, entry)
            except (OSError, ValueError) as error:
                logger.warning("%s is not sorted yet: %s", entry.source, error)
                parent.discard(temporary)
                return False
        return True

    def _give_name(self, entry: SortedFile) -> None:
        """Give a copy its name; where a person has just put a file of that name, sort it under another one."""
        with self._inside.parent_of(entry.target) as (parent, name):
            temporary = _temporary_name(entry, name)
            if parent.status(temporary) is None:
                return
            if parent.status(name) is None:
                parent.move_to(parent, temporary, name)
                parent.flush()
            else:
                answer = {"label": entry.label, "score": entry.score}
                self.put([replace(entry, target=self.targets().choose(Path(entry.source).name, answer))])
                parent.remove(temporary)


def _temporary_name(entry: SortedFile, name: str) -> str:
    """The name of a copy until its line is on the disk; ``TEMPORARY`` matches it."""
    return f".{name}.{entry.sha256[:32]}.tmp"


def sort_files(
    answers: Iterable[Mapping[str, Any]],
    paths: Sequence[Path],
    folder: Path,
    reports: Sequence[str] = (),
) -> Sorted:
    """Sort files into sub-folders of a folder by their answers; those that are there already stay.

    So a run that was killed is finished by the same call.

    Args:
        answers: The answers, each with ``label`` and ``score``.
        paths: The file of each answer.
        folder: The folder.
        reports: The names of those ``REPORTS`` that this run has written into the folder; undoing removes them, too.

    Returns:
        The numbers of files.

    Raises:
        ValueError: If another process sorts files into the folder, or its manifest is damaged.
    """
    put: list[SortedFile] = []
    with SortedFolder.opened(folder) as sorted_folder:
        known = sum(sorted_folder.knows(path, sha256_of_present(path)) for path in paths)
        planned = list(sorted_folder.plan(paths, answers).values())
        for start in range(0, len(planned), FILES_AT_A_TIME):
            put += sorted_folder.put(planned[start : start + FILES_AT_A_TIME])
        written = [SortedFile(source=None, target=name, sha256=sha256_of_file(folder / name)) for name in reports]
        sorted_folder.append(written)
    renamed = sum(Path(entry.target).name != safe_name(Path(entry.source).name) for entry in put)
    return Sorted(len(put), count_by_folder(put), renamed, known, len(paths) - known - len(put))


def copy_file(parent: InsideFolder, name: str, entry: SortedFile) -> None:
    """Copy a file with its time of modification, and check its content."""
    descriptor = parent.open_file(name, os.O_WRONLY | os.O_CREAT)
    with open(entry.source, "rb") as source, open(descriptor, "wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        status = os.fstat(source.fileno())
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    if parent.sha256(name) != entry.sha256:
        raise ValueError("it was changed while it was copied.")


def remove_left_overs(inside: InsideFolder, entries: Iterable[SortedFile]) -> None:
    """Remove temporary files that a killed run has left."""
    for sub_folder in {sub_folder_of(entry.target) for entry in entries}:
        with contextlib.suppress(FileNotFoundError), inside.subfolder(sub_folder) as parent:
            for name in parent.names():
                if TEMPORARY.fullmatch(name):
                    parent.remove(name)


def signature_of(path: Path) -> tuple[int, ...]:
    """Size, time of modification and inode of a file, which change with it."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def sha256_of_present(path: Path) -> str:
    """The SHA-256 of a file, computed again when it was changed; empty if it cannot be read."""
    try:
        return _sha256_of_state(path, signature_of(path)) if path.is_file() else ""
    except OSError:
        return ""


@functools.lru_cache(maxsize=100_000)
def _sha256_of_state(path: Path, _: tuple[int, ...]) -> str:
    """The SHA-256 of a file in one state."""
    return sha256_of_file(path)
