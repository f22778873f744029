"""Reading a folder while others save to it, so that all that is read is of one save."""

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

# Of these each save replaces one at least: the last ones that it moves, and what an adapter has in place of them.
DECISIVE = ("config.json", "adapter_config.json", "manifest.json", "datastore/manifest.json")
MOST_TRIES = 20  # where the system has no locks


class FolderState(NamedTuple):
    """What tells one save to a folder from the next: the files that each of them replaces, as the system knows them."""

    files: tuple[tuple[int, ...] | None, ...]

    @classmethod
    def begin(cls, folder: Path) -> FolderState:
        """The state before a folder is read. No save moves its files at this moment: one that does is waited for."""
        while True:
            finish_replacement(folder)
            state = cls(_decisive_files(folder))
            if not moves_files(folder):
                return state

    def is_still(self, folder: Path) -> bool:
        """Whether all that was read since ``begin`` is of this state: no save moved a file meanwhile.

        The order counts here and in ``begin``. A save that moved its files at either end is told by its journal, and
        one that did so in between by the files that it replaced.
        """
        return not moves_files(folder) and self.files == _decisive_files(folder)


def read_at_once(folder: str | Path, read: Callable[[], Read], hold: bool = False) -> tuple[Read, FolderState | None]:
    """What ``read`` reads of a folder, all of one save, and the state that it was in; of the Hub, what it reads.

    If somebody saves meanwhile, it is read again while saves have to wait. ``hold``: they have to wait at once.
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
        except Exception:  # of any kind: what is half old and half new can break anything
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
    # Not the content: saves may alternate, and what was read in between would be of another one.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None
