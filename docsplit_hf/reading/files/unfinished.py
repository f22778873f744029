"""Names of files that are being written, and the removal of those that a killed process left."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

STALE_SECONDS = 24 * 3600  # no file is written for so long, whichever machine shares the folder
_NAME = re.compile(r"\.(?P<host>[\w-]+)\.(?P<process>\d+)\.\d+\.tmp$")


def unfinished(path: Path) -> Path:
    """The name under which this thread writes a file before it is renamed."""
    return path.with_name(f"{path.name}.{_host()}.{os.getpid()}.{threading.get_ident()}.tmp")


def remove_stale(folder: Path, pattern: str) -> None:
    """Remove unfinished files of processes of this machine that have ended, and of others when they are a day old."""
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):  # another process removes or renames it
            if _is_stale(path):
                path.unlink()


def _is_stale(path: Path) -> bool:
    """Whether no process writes an unfinished file any more."""
    if time.time() - path.stat().st_mtime > STALE_SECONDS:
        return True
    name = _NAME.search(path.name)
    return name is not None and name["host"] == _host() and not _is_running(int(name["process"]))


def _is_running(process: int) -> bool:
    """Whether a process of this machine is running, whoever owns it; assumed where the system cannot tell."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # it is another user's, or its number is of another system
        pass
    return True


def _host() -> str:
    """The name of this machine, or of its container, in characters of file names."""
    return re.sub(r"[^\w-]", "-", socket.gethostname())
