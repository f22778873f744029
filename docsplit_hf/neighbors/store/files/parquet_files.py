"""Tables as Parquet files of plain types, which are read only if they are what is expected, in columns and in size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..datastore_error import REMEDY, DatastoreError
from .manifest import MANIFEST

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table so that ``read_table`` takes it."""
    import pyarrow.parquet as pq

    # Without Arrow's own schema in it: plain Parquet types only.
    pq.write_table(table, path, compression="zstd", store_schema=False)
    if table.nbytes > _most_unpacked(path.stat().st_size):  # a text many times: nobody would read it
        pq.write_table(table, path, compression="none", use_dictionary=False, store_schema=False)


def read_table(
    path: Path, expected: dict[str, pa.DataType], optional: dict[str, pa.DataType], rows: int | None = None
) -> pa.Table:
    """Read a table of these columns and, if it has them, the optional ones; ``rows``: how many there must be."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        if rows is not None and metadata.num_rows != rows:
            raise DatastoreError(f"{path} has {metadata.num_rows} rows, {MANIFEST} says {rows}. {REMEDY}")
        schema = metadata.schema.to_arrow_schema().remove_metadata()
        expected = expected | {name: kind for name, kind in optional.items() if name in schema.names}
        if dict(zip(schema.names, schema.types, strict=True)) != expected or len(schema) > len(expected):
            raise DatastoreError(f"{path} has other columns than a datastore: {schema.to_string()}. {REMEDY}")
        _check_unpacked(path, _encoded_bytes(metadata))
        texts = [name for name, kind in expected.items() if kind == pa.string()]  # one that is often there is read once
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
            table = file.read()
        _check_unpacked(path, _text_bytes(table))
        table = table.cast(schema)
        table.validate(full=True)  # that texts are UTF-8, which nothing else asks before they are shown
        return table
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DatastoreError(f"{path} is no Parquet file: {error}. {REMEDY}") from error


def read_batches(
    path: Path, expected: dict[str, pa.DataType], optional: dict[str, pa.DataType], rows: int, size: int
) -> Iterator[pa.RecordBatch]:
    """As ``read_table``, but ``size`` rows at a time, and large strings are as good as strings; other columns stay."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        if metadata.num_rows != rows:
            raise DatastoreError(f"{path} has {metadata.num_rows} rows, its manifest says {rows}. {REMEDY}")
        schema = metadata.schema.to_arrow_schema()
        wanted = pa.schema(expected | {name: kind for name, kind in optional.items() if name in schema.names})
        found = {name: schema.field(name).type for name in wanted.names if schema.get_field_index(name) >= 0}
        small = {name: pa.string() if kind == pa.large_string() else kind for name, kind in found.items()}
        if small != dict(zip(wanted.names, wanted.types, strict=True)):
            raise DatastoreError(f"{path} has the columns {found}, expected are: {wanted.to_string()}. {REMEDY}")
        _check_unpacked(path, _encoded_bytes(metadata))
        unpacked, texts = 0, [name for name in wanted.names if small[name] == pa.string()]
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
            for batch in file.iter_batches(size, columns=wanted.names):
                table = pa.Table.from_batches([batch]).select(wanted.names)
                unpacked += _text_bytes(table)
                _check_unpacked(path, unpacked)
                table = table.cast(wanted).combine_chunks()
                table.validate(full=True)
                yield from table.to_batches()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DatastoreError(f"{path} is no Parquet file: {error}. {REMEDY}") from error


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
