"""A lock on a file or a folder, which ends with its process."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Keep other processes out of a folder, or a file, which is made if it is not there; yields whether that holds.

    A process that is killed is out. Not all systems have locks. ``wait=False`` raises ``BlockingIOError`` if another
    process is in, or has just deleted the file.
    """
    try:
        import fcntl
    except ImportError:  # Windows: let only one process write there at a time
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    is_locked = True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError as error:
            is_locked = False
            logger.warning("%s cannot be locked (%s): let only one process write there at a time.", path, error)
        if not wait and os.fstat(descriptor).st_nlink == 0:
            raise BlockingIOError(f"{path} was deleted by the process that had locked it")
        yield is_locked
    finally:
        os.close(descriptor)
