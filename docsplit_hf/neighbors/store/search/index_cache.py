"""Indexes that were built on this machine, kept so that they need not be trained again.

A datastore's folder never holds one: to read a FAISS file is to trust native code with its bytes, and a folder may come
from a stranger. The cache may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.checkpoints.atomic_replacement import locked, sha256_of
from .index import build_index

if TYPE_CHECKING:
    import faiss

    from ..keys.mapped_keys import MappedKeys

logger = logging.getLogger(__name__)


def index_folder() -> Path:
    """``docsplit_hf/indexes`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "indexes"


def cached_index(keys: MappedKeys, factory: str) -> faiss.Index:
    """The index of keys that lie in files: kept, or built now, from where a killed process left it."""
    sha256, rows, dimension = keys.sha256, *keys.shape
    if (index := load_index(sha256, factory, rows, dimension)) is not None:
        return index
    unfinished = _key(sha256, f"{factory} unfinished")
    index_folder().mkdir(parents=True, exist_ok=True)
    with locked(index_folder() / f"{unfinished}.lock"):  # a second process waits, and finds it
        if (index := load_index(sha256, factory, rows, dimension)) is None:
            begun = _load(unfinished, dimension)
            if begun is not None:
                logger.info("An index was begun: it goes on at row %s.", f"{begun.ntotal:,}")
            index = build_index(keys, factory, begun, lambda index: _store(index, unfinished))
            store_index(index, sha256, factory)
            _delete(unfinished)
    return index


def store_index(index: faiss.Index, keys_sha256: str, factory: str) -> None:
    """Keep an index of all rows, unless it is kept."""
    key = _key(keys_sha256, factory)
    if not any(index_folder().glob(f"{key}-*.faiss")):
        _store(index, key)


def load_index(keys_sha256: str, factory: str, rows: int, dimension: int) -> faiss.Index | None:
    """An index that was kept by this version of FAISS."""
    return _load(_key(keys_sha256, factory), dimension, rows)


def _store(index: faiss.Index, key: str) -> None:
    """Keep an index in place of what is kept under a key. If that fails, as in a read-only home, it is a warning."""
    import faiss

    folder = index_folder()
    temporary = folder / f"{uuid.uuid4().hex}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        faiss.write_index(index, str(temporary))
        # The name carries the checksum of the content, so that the two are never apart.
        path = folder / f"{key}-{sha256_of(temporary)}.faiss"
        os.replace(temporary, path)
        _delete(key, path)
    except (OSError, RuntimeError) as error:  # FAISS raises the latter
        logger.warning("The index could not be kept in %s, and will be built again next time: %s", folder, error)
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _load(key: str, dimension: int, rows: int | None = None) -> faiss.Index | None:
    """What does not match its checksum is deleted with a warning."""
    import faiss

    for path in sorted(index_folder().glob(f"{key}-*.faiss")):
        if path.name == f"{key}-{sha256_of(path)}.faiss":
            index = faiss.read_index(str(path))
            if index.d == dimension and rows in (None, index.ntotal):
                return index
        logger.warning("The index %s is damaged: it is deleted and built again.", path)
        path.unlink(missing_ok=True)
    return None


def _delete(key: str, but: Path | None = None) -> None:
    for path in index_folder().glob(f"{key}-*.faiss"):
        if path != but:
            path.unlink(missing_ok=True)


def _key(keys_sha256: str, factory: str) -> str:
    import faiss

    return hashlib.sha256(f"{keys_sha256}\n{factory}\n{faiss.__version__}".encode()).hexdigest()
