"""Read all files of a folder from the same save, even if other processes save to it at the same time."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from .atomic_replacement import is_moving_files, recover_own_save, save_lock

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# Each save replaces at least one of these files, and moves it last.
FILES_OF_EACH_SAVE = ("config.json", "adapter_config.json", "manifest.json", "datastore/manifest.json")
MOST_TRIES = 20  # on systems without locks


class FolderState(NamedTuple):
    """The state of a folder between two saves: inode, size and times of the files that each save replaces."""

    files: tuple[tuple[int, ...] | None, ...]  # of FILES_OF_EACH_SAVE; None: no such file

    @classmethod
    def begin(cls, folder: Path) -> FolderState:
        """Wait until no save is moving files, and return the folder's state; call it before reading the folder."""
        while True:
            recover_own_save(folder)
            state = cls(_identities(folder))
            if not is_moving_files(folder):
                return state

    def is_unchanged(self, folder: Path) -> bool:
        """Whether no save has moved a file since ``begin``, so that everything read since then is of this state.

        The order of the two checks matters, here and in ``begin``: a save that moves its files during a check has a
        journal, and one that moved them between the checks has replaced files.
        """
        return not is_moving_files(folder) and self.files == _identities(folder)


def read_consistently(
    folder: str | Path, read: Callable[[], Result], hold: bool = False
) -> tuple[Result, FolderState | None]:
    """Call ``read`` so that all files that it reads come from the same save.

    If another process saves in the meantime, ``read`` is called again while saves have to wait.

    Args:
        folder: The folder, or a name on the Hub.
        read: Reads the folder.
        hold: Whether saves have to wait from the beginning.

    Returns:
        The result of ``read``, and the folder's state; None for a name on the Hub.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return read(), None
    for number in range(MOST_TRIES):
        if hold or number > 0:
            with save_lock(folder) as is_locked:
                if is_locked:
                    state = FolderState.begin(folder)
                    return read(), state
        state = FolderState.begin(folder)
        try:
            result = read()
        except Exception:  # a mixture of old and new files can cause any kind of error
            if state.is_unchanged(folder):
                raise
        else:
            if state.is_unchanged(folder):
                return result, state
        logger.info("Another process saved to %s while it was read: it is read again.", folder)
    raise OSError(f"{folder} was saved to during each of {MOST_TRIES} tries to read it: load it when no process saves.")


def _identities(folder: Path) -> tuple[tuple[int, ...] | None, ...]:
    """The identity of each file that saves replace; None for a file that does not exist."""
    return tuple(_identity(folder / name) for name in FILES_OF_EACH_SAVE)


def _identity(path: Path) -> tuple[int, ...] | None:
    """Inode, size and times of a file."""
    # The content would not do: two saves may restore the first one's content, with the second one's read in between.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None
