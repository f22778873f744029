"""Sorted files removed again, except those that were changed, and those that are the last copy."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import NamedTuple

from ..content_hash import sha256_of_file
from ..storage.atomic_replacement import locked
from ..storage.inside_folder import InsideFolder, write_file
from .sorted_files import (
    MANIFEST,
    FileState,
    SortedFile,
    manifest_lines,
    read_sorted,
    state_of,
    sub_folder_of,
    without_reports,
)
from .sorted_folder import remove_left_overs


class Undone(NamedTuple):
    """Files removed by undoing, and those that stay."""

    removed: int
    changed: list[str]  # changed or replaced since, so that they stay
    without_original: list[str]  # copies whose original is gone or was changed, so that they stay
    missing: int  # were gone already


def undo_sorting(folder: Path) -> Undone:
    """Remove unchanged sorted files whose originals are there, and sub-folders that are empty.

    Args:
        folder: The folder with the manifest.

    Returns:
        The files removed, and those that stay. The manifest keeps only the latter. Without any, it is removed, and so
        are the reports, unless they were changed.

    Raises:
        FileNotFoundError: If the folder has no manifest.
        ValueError: If the manifest is damaged, or another process sorts files into the folder.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise FileNotFoundError(f"{folder} has no {MANIFEST}: give a folder into which files were sorted.")
    try:
        with locked(manifest, wait=False):
            return _undo(folder, manifest)
    except BlockingIOError as error:
        raise ValueError(f"Another process sorts files into {folder}: stop it first.") from error


def _undo(folder: Path, manifest: Path) -> Undone:
    """Remove what a manifest lists."""
    listed = read_sorted(manifest)
    entries = without_reports(listed)
    reports = [entry for entry in listed if entry.source is None]
    found: dict[FileState, list[SortedFile]] = {"same": [], "changed": [], "without original": [], "missing": []}
    with InsideFolder.opened(folder) as inside:
        for entry in entries:
            found[_remove(inside, entry)].append(entry)
        removed = len(found["same"])
        missing = len(found["missing"])
        remove_left_overs(inside, entries)
        for name in {sub_folder_of(entry.target) for entry in entries}:
            with contextlib.suppress(OSError):  # a person has put something else there
                os.rmdir(name, dir_fd=inside.descriptor)
        stay = found["changed"] + found["without original"]
        if stay:
            write_file(manifest, manifest_lines([*stay, *reports]))
        else:
            for report in reports:
                found[_remove(inside, report)].append(report)
            manifest.unlink()
    names = {state: [entry.target for entry in found[state]] for state in found}
    return Undone(removed, names["changed"], names["without original"], missing)


def _remove(inside: InsideFolder, entry: SortedFile) -> FileState:
    """Remove a sorted file, unless it was changed or is the last copy; return its state before."""
    state = state_of(inside, entry)
    if state != "same":
        return state
    with inside.parent_of(entry.target) as (parent, name):
        if not _has_original(parent.status(name), entry):
            return "without original"
        parent.remove(name)
    return state


def _has_original(status: os.stat_result, entry: SortedFile) -> bool:
    """Whether removing an unchanged file loses no content: it is a report, or the copy of what is there."""
    if entry.source is None:
        return True
    try:
        original = os.stat(entry.source)
        if not stat.S_ISREG(original.st_mode) or original.st_size != status.st_size:
            return False
        if os.path.samestat(status, original):  # also where the source has become a link to this very file
            return status.st_nlink > 1
        return sha256_of_file(Path(entry.source)) == entry.sha256
    except OSError:
        return False
