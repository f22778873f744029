"""Names of files that are being written, and the removal of those that a killed process left."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

STALE_SECONDS = 24 * 3600  # no file is written for so long, whichever machine shares the folder


def unfinished(path: Path) -> Path:
    """The name under which this thread writes a file before it is renamed."""
    return path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.{time.time_ns()}.tmp")


def remove_stale(folder: Path, pattern: str) -> None:
    """Remove unfinished files that are a day old."""
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):  # another process removes or renames it
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
