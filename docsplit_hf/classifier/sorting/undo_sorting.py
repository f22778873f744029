"""Sorted files removed again, except those that were changed, and those that are the last copy."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

from ...storage.atomic_replacement import locked
from ...storage.inside_folder import InsideFolder, UnsafeFolderError, write_file
from .sorted_files import MANIFEST, SortedFile, manifest_lines, read_sorted, sub_folder_of
from .sorted_folder import remove_left_overs, sha256_of_present

FileState = Literal["same", "changed", "missing", "without original"]


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
    with locked(manifest, refusal=f"Another process sorts files into {folder}: stop it first."):
        return _undo(folder, manifest)


def _undo(folder: Path, manifest: Path) -> Undone:
    """Remove what a manifest lists."""
    listed = read_sorted(manifest)
    entries = [entry for entry in listed if entry.source is not None]
    reports = [entry for entry in listed if entry.source is None]
    with InsideFolder.opened(folder) as inside:
        states = {entry.target: _remove(inside, entry) for entry in entries}
        counts = Counter(states.values())
        remove_left_overs(inside, entries)
        for name in {sub_folder_of(entry.target) for entry in entries}:
            with contextlib.suppress(OSError):  # a person has put something else there
                os.rmdir(name, dir_fd=inside.descriptor)
        stay = [entry for entry in entries if states[entry.target] in ("changed", "without original")]
        if stay:
            write_file(manifest, manifest_lines([*stay, *reports]))
        else:
            states |= {report.target: _remove(inside, report) for report in reports}
            manifest.unlink()
    changed = [target for target, state in states.items() if state == "changed"]
    without_original = [target for target, state in states.items() if state == "without original"]
    return Undone(counts["same"], changed, without_original, counts["missing"])


def _remove(inside: InsideFolder, entry: SortedFile) -> FileState:
    """Remove a sorted file, unless it was changed or is the last copy; return its state before."""
    original = None
    with contextlib.suppress(OSError):
        original = None if entry.source is None else os.stat(entry.source)
    try:
        with inside.parent_of(entry.target) as (parent, name):
            status = parent.status(name)
            if status is None:
                return "missing"
            is_link = original is not None and os.path.samestat(status, original)
            # Earlier versions could make hard links: the original has the same content, whatever that is now.
            if not (stat.S_ISREG(status.st_mode) and (is_link or parent.sha256(name) == entry.sha256)):
                return "changed"
            if is_link and status.st_nlink == 1:  # the source has become a link to this very file
                return "without original"
            if entry.source is not None and not is_link and sha256_of_present(Path(entry.source)) != entry.sha256:
                return "without original"
            parent.remove(name)
    except FileNotFoundError:
        return "missing"
    except UnsafeFolderError:
        return "changed"
    return "same"
