"""Hash of contents."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .mapped_keys import MappedKeys


def sha256_of_parts(*parts: str | bytes | np.ndarray | MappedKeys) -> str:
    """SHA-256 of texts in UTF-8, bytes and arrays, one after the other: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        elif isinstance(part, bytes):
            digest.update(part)
        else:
            digest.update(np.ascontiguousarray(part))
    return digest.hexdigest()
