"""Hashes of content: checksums of files, keys and folders of caches, fingerprints, ids of duplicates.

Digests are stored in saved files and in the names of cached ones, which a change of a function would invalidate.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file's content, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_parts(parts: Iterable[bytes | np.ndarray]) -> str:
    """The SHA-256 of bytes and contiguous arrays, one after another, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def sha256_of_json(content: Any, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> str:
    """The SHA-256 of a JSON value, as ``json.dumps`` writes it, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=sort_keys, default=default).encode()).hexdigest()


def short_digest(content: bytes, size: int = 8) -> bytes:
    """The BLAKE2b digest of ``size`` bytes, which identifies contents in memory and in keys."""
    return hashlib.blake2b(content, digest_size=size).digest()


def cache_folder(name: str) -> Path:
    """The folder of a cache on this machine, ``docsplit_hf/NAME`` below ``HF_HOME``; it may be deleted at any time."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / name
