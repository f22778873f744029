"""Tables of rows: Parquet files that are read only if they are what is expected, and mapped ones of this machine.

Parquet is made to be small, and a row of it cannot be read by itself. So rows that stay on the disk are also written to
an Arrow file in the cache of this machine. As with an index, the cache may be deleted at any time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.checkpoints.atomic_replacement import locked
from .manifest import MANIFEST, REMEDY, DatastoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

logger = logging.getLogger(__name__)

ROWS_PER_CHUNK = 16_384


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table so that ``read_table`` takes it."""
    import pyarrow.parquet as pq

    # Without Arrow's own schema in it: plain Parquet types only.
    pq.write_table(table, path, compression="zstd", store_schema=False)
    if table.nbytes > _most_unpacked(path.stat().st_size):  # a text many times: nobody would read it
        pq.write_table(table, path, compression="none", use_dictionary=False, store_schema=False)


def read_table(path: Path, columns: dict[str, pa.DataType], rows: int | None = None) -> pa.Table:
    """A table of these columns and no others; see ``read_batches``."""
    import pyarrow as pa

    return pa.Table.from_batches(read_batches(path, columns, rows), pa.schema(columns))


def read_batches(
    path: Path, columns: dict[str, pa.DataType], rows: int | None = None, others: bool = False
) -> Iterator[pa.RecordBatch]:
    """The columns of a file, of so many ``rows``, in parts; ``text_pair`` may be missing; ``others`` may be there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        if rows is not None and metadata.num_rows != rows:
            raise DatastoreError(f"{path} has {metadata.num_rows} rows, {MANIFEST} says {rows}. {REMEDY}")
        schema = metadata.schema.to_arrow_schema().remove_metadata()
        wanted = {name: kind for name, kind in columns.items() if name in schema.names or name != "text_pair"}
        found = [(field.name, pa.string() if others and field.type == pa.large_string() else field.type)
                 for field in schema if field.name in wanted or not others]  # fmt: skip
        if len(found) != len(wanted) or dict(found) != wanted:
            raise DatastoreError(f"{path} has other columns than a datastore: {schema.to_string()}. {REMEDY}")
        _check_unpacked(path, _encoded_bytes(metadata))
        unpacked, texts = 0, [name for name, kind in wanted.items() if kind == pa.string()]
        # A text that is often there is read once.
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
            for batch in file.iter_batches(ROWS_PER_CHUNK, columns=list(wanted)):
                table = pa.Table.from_batches([batch]).select(list(wanted))
                unpacked += _text_bytes(table)
                _check_unpacked(path, unpacked)
                table = table.cast(pa.schema(wanted)).combine_chunks()
                table.validate(full=True)  # that texts are UTF-8, which nothing else asks before they are shown
                if len(wanted) < len(columns):
                    table = table.append_column("text_pair", pa.nulls(len(table), pa.string()))
                yield from table.select(list(columns)).to_batches()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatastoreError(f"{path} is no Parquet file: {error}. {REMEDY}") from error


def row_folder() -> Path:
    """``docsplit_hf/rows`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "rows"


def mapped_rows(
    sha256: str, read: Callable[[], tuple[pa.Schema, Iterable[pa.RecordBatch]]], anew: bool = False
) -> pa.Table:
    """A mapped table of what ``read`` reads and checks, if it is not cached under its ``sha256`` yet, or ``anew``."""
    import pyarrow as pa

    path = row_folder() / f"{sha256}.arrow"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):  # a second process waits, and finds it
        if anew or not path.is_file():
            start, temporary = time.perf_counter(), path.with_suffix(".tmp")
            schema, batches = read()
            try:
                with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                    for batch in batches:
                        writer.write_batch(batch)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            seconds = time.perf_counter() - start
            logger.info("Checked all files, and wrote ids, texts and labels to %s, in %.0f s.", path, seconds)
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).read_all()
    except pa.ArrowException as error:
        raise ValueError(f"{path}, in the cache of this machine, is damaged ({error}): delete it.") from error


def _check_unpacked(path: Path, unpacked: int) -> None:
    """A few kilobytes may unpack to gigabytes: loading a stranger's datastore must not use up the memory."""
    most = _most_unpacked(path.stat().st_size)
    if unpacked > most:
        raise DatastoreError(
            f"{path} unpacks to {unpacked:,} bytes, and from its size at most {most:,} are expected: it may be made to "
            "fill the memory. Do not use it."
        )


def _most_unpacked(packed: int) -> int:
    return 2**26 + 1000 * packed


def _encoded_bytes(metadata: pq.FileMetaData) -> int:
    """What the pages take without compression. A value of a list may take less than a bit, and eight bytes later."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    lists = [column for column in columns if "." in column.path_in_schema]
    return sum(column.total_uncompressed_size for column in columns) + 8 * sum(column.num_values for column in lists)


def _text_bytes(table: pa.Table) -> int:
    """What the texts take when each row has its own copy."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [column for column in table.columns if isinstance(column.type, pa.DictionaryType)]
    lengths = [pc.take(pc.binary_length(chunk.dictionary), chunk.indices) for c in columns for chunk in c.chunks]
    return sum(pc.sum(chunk).as_py() or 0 for chunk in lengths)
