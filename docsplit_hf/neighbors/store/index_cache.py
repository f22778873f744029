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

from ...models.checkpoints.checksum import sha256_of

if TYPE_CHECKING:
    import faiss

logger = logging.getLogger(__name__)


def index_folder() -> Path:
    """``docsplit_hf/indexes`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "indexes"


def store_index(index: faiss.Index, keys_sha256: str, factory: str) -> None:
    """Keep an index of all rows, unless it is kept. If that fails, as in a read-only home, a warning is logged."""
    import faiss

    folder, key = index_folder(), _key(keys_sha256, factory)
    if any(folder.glob(f"{key}-*.faiss")):
        return
    temporary = folder / f"{uuid.uuid4().hex}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        faiss.write_index(index, str(temporary))
        # The name carries the checksum of the content, so that the two are never apart.
        os.replace(temporary, folder / f"{key}-{sha256_of(temporary)}.faiss")
    except (OSError, RuntimeError) as error:  # FAISS raises the latter
        logger.warning("The index could not be kept in %s, and will be built again next time: %s", folder, error)
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def load_index(keys_sha256: str, factory: str, rows: int, dimension: int) -> faiss.Index | None:
    """An index that was kept by this version of FAISS. What does not match its checksum is deleted with a warning."""
    import faiss

    key = _key(keys_sha256, factory)
    for path in sorted(index_folder().glob(f"{key}-*.faiss")):
        if path.name == f"{key}-{sha256_of(path)}.faiss":
            index = faiss.read_index(str(path))
            if (index.ntotal, index.d) == (rows, dimension):
                return index
        logger.warning("The index %s is damaged: it is deleted and built again.", path)
        path.unlink(missing_ok=True)
    return None


def _key(keys_sha256: str, factory: str) -> str:
    import faiss

    return hashlib.sha256(f"{keys_sha256}\n{factory}\n{faiss.__version__}".encode()).hexdigest()
