"""Who may read what is saved: as with any other file, whoever the umask lets."""

from __future__ import annotations

import os
from pathlib import Path


def open_to_readers(folder: str | Path) -> None:
    """Let the umask decide who may read the weights of a folder: safetensors keeps them for their owner alone.

    Args:
        folder: The folder that was saved to. Folders in it are left alone.

    Example:

        >>> import stat, tempfile
        >>> file = Path(tempfile.mkdtemp(), "model.safetensors")
        >>> file.touch(mode=0o600)
        >>> open_to_readers(file.parent)
        >>> mask = os.umask(0)
        >>> _ = os.umask(mask)
        >>> stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
        True
    """
    mask = os.umask(0)  # the only way to read it
    os.umask(mask)
    for file in Path(folder).glob("*.safetensors"):
        file.chmod(0o666 & ~mask)
