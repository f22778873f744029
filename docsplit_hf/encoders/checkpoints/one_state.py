"""Read a folder while others save to it, so that all files come from one save."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from .atomic_replacement import finish_replacement, held_still, moves_files

logger = logging.getLogger(__name__)

Read = TypeVar("Read")

# Each save replaces at least one of these: it moves them last.
DECISIVE = ("config.json", "adapter_config.json", "manifest.json", "datastore/manifest.json")
MOST_TRIES = 20  # where the system has no locks


class FolderState(NamedTuple):
    """The state of a folder between two saves: inode, size and times of the files that each save replaces."""

    files: tuple[tuple[int, ...] | None, ...]

    @classmethod
    def begin(cls, folder: Path) -> FolderState:
        """The state before a folder is read, once no save is moving its files."""
        while True:
            finish_replacement(folder)
            state = cls(_decisive_files(folder))
            if not moves_files(folder):
                return state

    def is_still(self, folder: Path) -> bool:
        """Whether everything read since ``begin`` is of this state: no save moved a file meanwhile.

        The order of the two checks matters, here and in ``begin``: a save that moves its files during a check has a
        journal, and one that moved them in between has replaced files.
        """
        return not moves_files(folder) and self.files == _decisive_files(folder)


def read_at_once(folder: str | Path, read: Callable[[], Read], hold: bool = False) -> tuple[Read, FolderState | None]:
    """Call ``read`` so that all it reads of a folder comes from one save; return its result and the folder's state.

    If another process saves meanwhile, the folder is read again while saves have to wait. ``hold``: make saves wait
    from the beginning. For a name on the Hub the state is None.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return read(), None
    for number in range(MOST_TRIES):
        if hold or number > 0:
            with held_still(folder) as is_held:
                if is_held:
                    state = FolderState.begin(folder)
                    return read(), state
        state = FolderState.begin(folder)
        try:
            result = read()
        except Exception:  # of any kind: files half old and half new can break anything
            if state.is_still(folder):
                raise
        else:
            if state.is_still(folder):
                return result, state
        logger.info("%s was saved to while it was read: it is read again.", folder)
    raise OSError(f"{folder} was saved to each of {MOST_TRIES} times that it was read: load it when no one saves.")


def _decisive_files(folder: Path) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(_identity(folder / name) for name in DECISIVE)


def _identity(path: Path) -> tuple[int, ...] | None:
    # Not the content: saves may alternate, and files read in between would be of another save.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None
