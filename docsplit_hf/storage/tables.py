"""Read and write tables of rows: checked Parquet files, and memory-mapped Arrow files in a cache on this machine.

Single rows of a Parquet file cannot be read, so rows that stay on the disk are copied to an Arrow file in the cache.
The cache may be deleted at any time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..arrays.row_table import ORIGIN_COLUMNS, describe_invalid_ids, describe_invalid_origins
from ..content_hash import cache_folder, sha256_of_parts
from .atomic_replacement import locked
from .inside_folder import temporary_file
from .manifest import MANIFEST, REMEDY, DatastoreError, Manifest

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

logger = logging.getLogger(__name__)

ROWS_PER_CHUNK = 16_384
# A file may unpack to a thousand times its size, and to at least 64 MiB.
MIN_UNPACKED_BYTES = 2**26
MAX_UNPACKING = 1_000
BYTES_PER_LIST_VALUE = 8
MAPPED_ROLES = ("keys", "rows")  # files of a datastore that can stay on the disk
OPTIONAL_COLUMNS = ("text_pair", *ORIGIN_COLUMNS)  # written only if a row has them


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table that ``read_table`` accepts."""
    import pyarrow.parquet as pq

    # Without the schema of Arrow, the file has plain Parquet types only.
    pq.write_table(table, path, compression="zstd", store_schema=False)
    if table.nbytes > _max_unpacked(path.stat().st_size):  # many equal texts, which read_table would refuse
        pq.write_table(table, path, compression="none", use_dictionary=False, store_schema=False)


def read_table(path: Path, columns: dict[str, pa.DataType], rows: int | None = None) -> pa.Table:
    """Read a table with exactly these columns; see ``read_batches``."""
    import pyarrow as pa

    return pa.Table.from_batches(read_batches(path, columns, rows), pa.schema(columns))


def read_batches(
    path: Path,
    columns: dict[str, pa.DataType],
    rows: int | None = None,
    only: str | None = None,
    remedy: str = REMEDY,
) -> Iterator[pa.RecordBatch]:
    """Read a file with these columns and ``rows`` rows in batches; ``OPTIONAL_COLUMNS`` may be missing, others not.

    ``only``: the single column to read. ``remedy``: the next step, for errors.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        if rows is not None and metadata.num_rows != rows:
            raise DatastoreError(f"{path} has {metadata.num_rows} rows instead of the {rows} in {MANIFEST}. {REMEDY}")
        schema = metadata.schema.to_arrow_schema().remove_metadata()
        wanted = {name: kind for name, kind in columns.items() if name in schema.names or name not in OPTIONAL_COLUMNS}
        found = dict(zip(schema.names, schema.types, strict=True))
        if len(schema) != len(wanted) or found != wanted:
            raise DatastoreError(f"{path} has other columns than a datastore: {schema.to_string()}. {remedy}")
        _check_unpacked(path, _encoded_bytes(metadata))
        if only is not None:
            columns = wanted = {only: columns[only]}
        unpacked = 0
        texts = [name for name, kind in wanted.items() if kind == pa.string()]
        # A repeated text is read once.
        with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
            for batch in file.iter_batches(ROWS_PER_CHUNK, columns=list(wanted)):
                table = pa.Table.from_batches([batch]).select(list(wanted))
                unpacked += _text_bytes(table)
                _check_unpacked(path, unpacked)
                table = table.cast(pa.schema(wanted)).combine_chunks()
                table.validate(full=True)  # checks that texts are UTF-8
                for name in columns:
                    if name not in wanted:
                        table = table.append_column(name, pa.nulls(len(table), pa.string()))
                yield from table.select(list(columns)).to_batches()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatastoreError(f"{path} is not a Parquet file: {error}. {remedy}") from error


def rows_sha256(manifest: Manifest) -> str:
    """Return the name in the cache of the rows of a datastore."""
    return sha256_of_parts(manifest["files"][role]["sha256"].encode() for role in MAPPED_ROLES)


def cached_rows(sha256: str) -> Path:
    """Return the file in the cache of the table with a name."""
    return cache_folder("rows") / f"{sha256}.arrow"


def mapped_rows(
    sha256: str,
    source: Path,
    read: Callable[[], tuple[pa.Schema, Iterable[pa.RecordBatch]]],
    beside: Path | None = None,
    remedy: str = REMEDY,
) -> pa.Table:
    """Map the table cached under ``sha256``; if it is missing, first write it by ``read``.

    ``source``: the file or folder that is read, for errors in its ids and places, with ``remedy``, the next step.
    ``beside``: a file that ``read`` writes, too; if it is missing, both are written.
    """
    import pyarrow as pa

    path = cached_rows(sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):  # a second process waits for the first
        if not path.is_file() or (beside is not None and not beside.is_file()):
            start = time.perf_counter()
            schema, batches = read()
            with temporary_file(path.with_suffix(".tmp")) as temporary:
                with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                    ids = []
                    for batch in batches:
                        ids.append(batch["id"])
                        refuse(source, describe_invalid_origins(pa.Table.from_batches([batch])), remedy)
                        writer.write_batch(batch)
                    refuse(source, describe_invalid_ids(pa.chunked_array(ids, pa.string())), remedy)
                temporary.replace(path)
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


def refuse(path: Path, fault: str | None, remedy: str = REMEDY) -> None:
    """Raise with a description of a fault, if there is one."""
    if fault is not None:
        raise DatastoreError(f"{path}: {fault}. {remedy}")


def _check_unpacked(path: Path, unpacked: int) -> None:
    """Raise for a file of kilobytes that unpacks to gigabytes: a stranger's datastore must not fill the memory."""
    limit = _max_unpacked(path.stat().st_size)
    if unpacked > limit:
        raise DatastoreError(
            f"{path} unpacks to {unpacked:,} bytes, but at most {limit:,} are expected of its size: it may be made to "
            "fill the memory. Do not use it."
        )


def _max_unpacked(packed: int) -> int:
    return MIN_UNPACKED_BYTES + MAX_UNPACKING * packed


def _encoded_bytes(metadata: pq.FileMetaData) -> int:
    """Bytes of the uncompressed pages, plus those of list values in memory, which may be compressed to bits."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    lists = [column for column in columns if "." in column.path_in_schema]
    return sum(column.total_uncompressed_size for column in columns) + BYTES_PER_LIST_VALUE * sum(
        column.num_values for column in lists
    )


def _text_bytes(table: pa.Table) -> int:
    """Bytes of the texts if each row had its own copy."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [column for column in table.columns if isinstance(column.type, pa.DictionaryType)]
    chunks = [chunk for column in columns for chunk in column.chunks]
    lengths = (pc.take(pc.binary_length(chunk.dictionary), chunk.indices) for chunk in chunks)
    return sum(pc.sum(of_chunk).as_py() or 0 for of_chunk in lengths)
