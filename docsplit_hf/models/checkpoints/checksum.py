"""The SHA-256 of a file, by which what is saved is named and checked."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256_of(path: Path) -> str:
    """The SHA-256 of what a file holds.

    Args:
        path: The file.

    Returns:
        64 hexadecimal digits.

    Example:

        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "file")
        >>> path.write_bytes(b"A text.")
        7
        >>> sha256_of(path)[:8]
        '3b6444e2'
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
