"""Rows of a datastore that stay on the disk: an Arrow file in the cache of this machine, which is mapped.

Parquet is made to be small, and a row of it cannot be read by itself. As with an index, the cache may be deleted at any
time: it is written again from the files that it came from.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.checkpoints.atomic_replacement import locked

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

ROWS_PER_CHUNK = 16_384


def row_folder() -> Path:
    """``docsplit_hf/rows`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "rows"


def mapped_rows(
    sha256: str, read: Callable[[], tuple[pa.Schema, Iterable[pa.RecordBatch]]], anew: bool = False
) -> pa.Table:
    """A table, mapped; ``sha256`` is of what it is read from, which happens if it is not cached yet, or ``anew``.

    ``read`` checks what it reads: that a table is cached says that all was right once.
    """
    import pyarrow as pa

    path = row_folder() / f"{sha256}.arrow"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):  # a second process waits, and finds it
        if anew or not path.is_file():
            start = time.perf_counter()
            _write(path, *read())
            logger.info(
                "Checked all files, and wrote ids, texts and labels to %s, in %.0f s.",
                path,
                time.perf_counter() - start,
            )
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except pa.ArrowException as error:
        raise ValueError(f"{path}, in the cache of this machine, is damaged ({error}): delete it.") from error


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa

    temporary = path.with_suffix(".tmp")
    try:
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
