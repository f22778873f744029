"""Readers of files to classify, and writers of files of answers, as streams of rows."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ..reading.characters import replace_lone_surrogates
from ..reading.csv_files import MARKER, harmless_cell
from ..reading.source import find_text_files, refuse_missing_file
from ..reading.tables import checked_encoding, file_format, naming, read_table_rows, read_text_file
from ..storage.inside_folder import temporary_file

Row = dict[str, Any]

ROWS_AT_A_TIME = 256  # read, classified and written together: an interrupted run loses at most these


def read_rows(
    source: Path, text_column: str = "text", csv_separator: str | None = None, encoding: str | None = None
) -> Iterator[Row]:
    """Read a file, or a folder of ``.txt`` files, row by row, with all its columns.

    Fields of a ``.csv`` file stay strings, also ``007`` and ``NA``. Lone surrogates, which no output file can hold, are
    replaced. ``text_column`` is the name of the column for texts of ``.txt`` files.

    Raises:
        FileNotFoundError: If there is no such file or folder, or the folder has no ``.txt`` file.
        ValueError: If the file cannot be parsed.
    """
    refuse_missing_source(source)
    rows = (
        _folder_rows(source, text_column, encoding)
        if source.is_dir()
        else _file_rows(source, text_column, csv_separator, encoding)
    )
    for row in rows:
        yield _writable(row)


def refuse_missing_source(source: Path) -> None:
    """Raise FileNotFoundError for a missing file or folder."""
    if not source.exists():
        refuse_missing_file(str(source))
        raise FileNotFoundError(f"There is no file or folder '{source}'.")


def _writable(value: Any) -> Any:
    """Replace lone surrogates in a value, at any depth."""
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        return {_writable(name): _writable(item) for name, item in value.items()}
    return value


def _folder_rows(folder: Path, text_column: str, encoding: str | None) -> Iterator[Row]:
    """Read each ``.txt`` file of a folder as a row with its relative path as id."""
    files = find_text_files(folder)
    if not files:
        raise FileNotFoundError(f"The folder {folder} holds no .txt file: give a file, or a folder of .txt files.")
    for path in files:
        yield {"id": path.relative_to(folder).as_posix(), text_column: read_text_file(path, encoding)}


def _file_rows(source: Path, text_column: str, csv_separator: str | None, encoding: str | None) -> Iterator[Row]:
    kind = file_format(source)
    with naming(source):
        encoding = checked_encoding(source, csv_separator, encoding)
        if kind == "parquet":
            _check_pyarrow(source)
            import pyarrow.parquet as pq

            for batch in pq.ParquetFile(source).iter_batches(ROWS_AT_A_TIME):
                yield from batch.to_pylist()
        else:
            for row in read_table_rows(source, csv_separator, encoding):
                yield {text_column: row["text"]} if kind == "text" else row


def blocks_of(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Split rows into lists of 256; the last may be shorter."""
    stream = iter(rows)
    while block := list(itertools.islice(stream, ROWS_AT_A_TIME)):
        yield block


def check_output(target: Path, safe_csv: bool = False) -> None:
    """Raise ValueError for a file with an ending that cannot be written."""
    ending = target.suffix.lower()
    if ending not in _WRITERS:
        raise ValueError(f"{target}: answers are written to .csv, .jsonl or .parquet.")
    if ending == ".parquet":
        _check_pyarrow(target)
    if safe_csv and ending != ".csv":
        raise ValueError(
            f"{target}: safe_csv is for .csv files, as spreadsheets run formulas only in those. Leave it out."
        )


def _check_pyarrow(path: Path) -> None:
    """Raise ``ModuleNotFoundError`` where pyarrow is missing, as in a small installation, which only answers."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ModuleNotFoundError(f"{path} needs pyarrow: pip install pyarrow, or use .csv or .jsonl.")


def check_rows(target: Path, rows: Callable[[], Iterable[Row]], columns: Sequence[str]) -> None:
    """Raise ValueError for rows that cannot be written, such as mixed types in a column of Parquet; write no file."""
    ending = target.suffix.lower()
    if ending == ".csv" and MARKER in columns:
        raise ValueError(f"The column {MARKER!r} would mark the answers as a file made by safe_csv: rename it.")
    if ending == ".parquet":  # the other formats hold all values
        with open(os.devnull, "wb") as nowhere:
            _write_parquet(nowhere, rows, columns)


def write_rows(target: Path, rows: Callable[[], Iterable[Row]], columns: Sequence[str], safe_csv: bool = False) -> None:
    """Write rows to a file atomically; an existing file is replaced. In CSV, lists become JSON.

    Args:
        target: The file, ``.csv``, ``.jsonl`` or ``.parquet``.
        rows: A function that returns the rows, called for each pass over them.
        columns: The names of the columns.
        safe_csv: Whether to quote the texts of a ``.csv`` file, and put an apostrophe before texts that a spreadsheet
            would run as formulas. If there are any, a last column marks the file, and ``read_rows`` removes the
            apostrophes.
    """
    write = _write_safe_csv if safe_csv else _WRITERS[target.suffix.lower()]
    with temporary_file(target.with_name(f"{target.name}.tmp")) as temporary:
        write(temporary, rows, columns)
        os.replace(temporary, target)


def _write_csv(path: Path, rows: Callable[[], Iterable[Row]], columns: Sequence[str]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(_csv_lines(rows, columns))


def _write_safe_csv(path: Path, rows: Callable[[], Iterable[Row]], columns: Sequence[str]) -> None:
    is_changed = any(line != _harmless(line) for line in _csv_lines(rows, columns))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        marker = [MARKER] if is_changed else []
        for line in _csv_lines(rows, columns):
            writer.writerow(_harmless(line) + marker)
            marker = [""] if is_changed else []


def _csv_lines(rows: Callable[[], Iterable[Row]], columns: Sequence[str]) -> Iterator[list[Any]]:
    """The names of the columns, and the values of each row; lists, dictionaries and bools become JSON."""
    yield list(columns)
    for row in rows():
        values = [row.get(name) for name in columns]
        yield [to_json(value) if isinstance(value, list | dict | bool) else value for value in values]


def _harmless(line: list[Any]) -> list[Any]:
    return [harmless_cell(value) if isinstance(value, str) else value for value in line]


def _write_jsonl(path: Path, rows: Callable[[], Iterable[Row]], columns: Sequence[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{to_json({name: row.get(name) for name in columns})}\n" for row in rows())


def _write_parquet(path: Path | IO[bytes], rows: Callable[[], Iterable[Row]], columns: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def blocks() -> Iterator[list[Row]]:
        return blocks_of({name: row.get(name) for name in columns} for row in rows())

    try:
        schemas = [pa.Table.from_pylist(block).schema for block in blocks()]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        with pq.ParquetWriter(path, schema) as writer:
            for block in blocks():
                writer.write_table(pa.Table.from_pylist(block, schema))
    except pa.ArrowException as error:
        raise ValueError(f"The rows do not fit into Parquet ({error}): choose .jsonl or .csv.") from error


_WRITERS = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}


def to_json(value: Any) -> str:
    """Convert to JSON in one line; values of other types, such as dates, become strings."""
    return json.dumps(value, ensure_ascii=False, default=str)
