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
    """Where indexes are kept: ``docsplit_hf/indexes`` below ``HF_HOME``.

    Returns:
        The folder, which may not be there yet.

    Example:

        >>> index_folder().parts[-2:]
        ('docsplit_hf', 'indexes')
    """
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "indexes"


def store_index(index: faiss.Index, keys_sha256: str, factory: str) -> None:
    """Keep an index, unless one of these keys is kept. If that fails, as in a read-only home, a warning is logged.

    Args:
        index: An index of all rows.
        keys_sha256: Of the file with the keys.
        factory: As in ``IndexOptions``.

    Example:

        >>> import os, tempfile
        >>> from unittest import mock
        >>> import numpy as np
        >>> from docsplit_hf.neighbors.store.index import build_index
        >>> index = build_index(np.random.default_rng(0).standard_normal((1000, 8), dtype=np.float32), "IVF16,Flat")
        >>> with tempfile.TemporaryDirectory() as home, mock.patch("huggingface_hub.constants.HF_HOME", home):
        ...     store_index(index, "0" * 64, "IVF16,Flat")
        ...     load_index("0" * 64, "IVF16,Flat", rows=1000, dimension=8).ntotal
        1000
    """
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
    """Find an index that was kept. What does not match its checksum is not read, but deleted with a warning.

    Args:
        keys_sha256: Of the file with the keys.
        factory: As in ``IndexOptions``.
        rows: The number of keys.
        dimension: Their dimension.

    Returns:
        The index, or None if there is none of these keys by this version of FAISS.

    Example:

        >>> load_index("no such keys", "IVF16,Flat", rows=1000, dimension=8) is None
        True
    """
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
