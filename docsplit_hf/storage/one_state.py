"""Read all files of a folder from the same save, even if other processes save to it at the same time."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from .atomic_replacement import SAVED, STATE_FILES, save_lock, valid_folder

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST_TRIES = 20  # on systems without locks


class FolderState(NamedTuple):
    """The state of a folder between two saves: where its valid files are, and inode, size and times of some of them."""

    place: Path
    files: tuple[tuple[int, ...] | None, ...]  # of SAVED and STATE_FILES; None: no such file

    @classmethod
    def of(cls, folder: Path) -> FolderState:
        """The state of a folder; what is read between two equal states is of one save."""
        while True:
            before = _identity(folder / SAVED)
            place = valid_folder(folder)
            files = tuple(_identity(folder / name) for name in STATE_FILES)
            if _identity(folder / SAVED) == before:
                return cls(place, (before, *files))


def read_consistently(
    folder: str | Path, read: Callable[[str | Path], Result], hold: bool = False
) -> tuple[Result, FolderState | None]:
    """Call ``read`` with the folder of the valid files, so that all files that it reads come from the same save.

    If another process saves in the meantime, ``read`` is called again while saves have to wait.

    Args:
        folder: The folder, or a name on the Hub.
        read: Reads a folder.
        hold: Whether saves have to wait from the beginning.

    Returns:
        The result of ``read``, and the folder's state; None for a name on the Hub.
    """
    if not Path(folder).is_dir():
        return read(folder), None
    folder = Path(folder)
    for number in range(MOST_TRIES):
        with save_lock(folder) if hold or number > 0 else contextlib.nullcontext():
            state = FolderState.of(folder)
            try:
                result = read(state.place)
            except Exception:  # a mixture of old and new files can cause any kind of error
                if FolderState.of(folder) == state:
                    raise
            else:
                if FolderState.of(folder) == state:
                    return result, state
        logger.info("Another process saved to %s while it was read: it is read again.", folder)
    raise OSError(f"{folder} was saved to during each of {MOST_TRIES} tries to read it: load it when no process saves.")


def _identity(path: Path) -> tuple[int, ...] | None:
    """Inode, size and times of a file."""
    # The content would not do: two saves may restore the first one's content, with the second one's read in between.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None
