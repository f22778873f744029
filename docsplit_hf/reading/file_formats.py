"""Read tables (JSON, CSV, Parquet and lines of text) as rows, with errors that name the file."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from . import plain_csv
from .spreadsheet_cells import MARKER, original_cell

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

CHARACTERS_TO_LOOK_AT = 10_000  # characters of a header from which the separator is guessed
MOST_RANGES = 240  # divisible by most numbers of processes and workers
SMALLEST_RANGE = 65_536  # bytes; of smaller ranges, a large part would be read twice
FILE_FORMATS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".txt": "text"}
SEPARATORS = (",", ";", "\t", "|")
UNREADABLE = (ValueError, EOFError, StopIteration, RecursionError, gzip.BadGzipFile, zlib.error)  # of damaged files


def load_table(
    path: Path, streaming: bool = False, csv_separator: str | None = None, encoding: str | None = None
) -> Dataset | IterableDataset:
    """Load a file; a ``.txt`` file has a row for each line.

    The shards of a stream are byte ranges of a ``.jsonl`` file, or row groups.
    """
    import datasets
    from datasets.data_files import DataFilesList

    kind = file_format(path)
    _refuse_ambiguous_name(path)
    # DataFilesList, because a string is a pattern that another file might match.
    data_files = {"train": DataFilesList([str(path.absolute())], [tuple(map(str, file_state(path)))])}
    with naming(path):
        options = reader_options(path, kind, csv_separator, encoding)
        _refuse_no_bytes(path)
        rows = datasets.load_dataset(kind, data_files=data_files, split="train", streaming=True, **options)
        first = next(iter(rows), None)
        if first is None:
            raise ValueError("it holds no rows")
        if "__index_level_0__" in first:  # rows have more fields than the header, so pandas makes an index of the first
            raise ValueError(plain_csv.MORE_FIELDS)
        if not streaming:
            rows = datasets.load_dataset(kind, data_files=data_files, split="train", **options)
            return rows.remove_columns(MARKER) if MARKER in first else rows
        if MARKER in first:
            return rows.remove_columns(MARKER)
        if kind == "json" and _has_rows_by_line(path, encoding or "utf-8-sig"):
            state = file_state(path)
            ranges = [(str(path), start, end, state) for start, end in byte_ranges(path.stat().st_size)]
            return datasets.IterableDataset.from_generator(
                _read_ranges, gen_kwargs={"ranges": ranges, "encoding": encoding or "utf-8-sig"}
            )
    return rows.reshard() if kind == "parquet" else rows


def check_encoding(encoding: str | None) -> None:
    """Refuse an encoding that Python does not have."""
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as error:
        raise ValueError(f"There is no encoding {encoding!r} in Python: give another one, such as 'cp1252'.") from error


def read_text_file(path: Path, encoding: str | None = None) -> str:
    """Read a ``.txt`` file as one text."""
    with naming(path), _open(path, "rt", encoding=encoding or _detect_encoding(path)) as file:
        return file.read()


def file_format(path: Path) -> str:
    """Name in ``datasets`` of a file's format, from its ending in upper or lower case."""
    suffix = without_gz(path).suffix.lower()
    if suffix not in FILE_FORMATS:
        raise ValueError(f"The format of {path} is unknown. Known endings: {sorted(FILE_FORMATS)}, also with .gz.")
    return FILE_FORMATS[suffix]


def without_gz(path: Path) -> Path:
    """The path without the ending ``.gz``."""
    return path.with_suffix("") if _is_compressed(path) else path


def read_json_rows(path: Path, encoding: str | None = None) -> Iterator[dict[str, Any]]:
    """Read JSON lines, or one JSON list of objects, as they are; ``datasets`` would turn some strings into dates."""
    number = 0
    encoding = encoding or _detect_encoding(path)
    with _open(path, "rt", encoding=encoding, newline="\n") as file:
        lines = (line for line in file if line.strip())
        try:
            first = next(lines, "")
            if first.lstrip().startswith("["):
                rows = json.loads(first + "".join(lines))
            else:
                rows = (json.loads(line) for line in chain([first], lines) if line)
            for number, row in enumerate(rows, start=1):
                if not isinstance(row, dict):
                    raise ValueError(f"Row {number} of {path.name} is {str(row)[:80]!r}, not an object with columns.")
                yield row
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            name = encoding.removesuffix("-sig").upper()
            raise ValueError(f"Row {number + 1} of {path.name} is not JSON in {name}: {error}.") from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path and the next step to errors of reading a file."""
    try:
        yield
    except (*_general_errors(), *UNREADABLE) as error:
        is_general = isinstance(error, _general_errors())
        reason = error.__cause__ if is_general and error.__cause__ is not None else error
        hint = ""
        if isinstance(reason, UnicodeDecodeError) or isinstance(reason.__cause__, UnicodeDecodeError):
            hint = " Give its encoding: encoding='cp1252' for many files from Windows, 'latin-1', ..."
        message = (str(reason) or repr(reason)).strip().rstrip(".")
        raise ValueError(f"{path} cannot be used: {message}.{hint}") from error


def _general_errors() -> tuple[type[Exception], ...]:
    """The error by which datasets replaces others, if it was imported."""
    datasets = sys.modules.get("datasets")
    return () if datasets is None else (datasets.exceptions.DatasetGenerationError,)


def byte_ranges(size: int) -> list[tuple[int, int]]:
    """Divide a file into ranges of nearly equal size: start and end in bytes."""
    count = min(MOST_RANGES, max(1, size // SMALLEST_RANGE))
    return list(pairwise(size * i // count for i in range(count + 1)))


def lines_between(path: Path, start: int, end: int) -> Iterator[bytes]:
    """Read the complete lines that begin in a range."""
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        while file.tell() < end and (line := file.readline()):
            yield line


def file_state(path: Path) -> tuple[int, int]:
    """Time of modification and size of a file, by which a cache detects changes."""
    return path.stat().st_mtime_ns, path.stat().st_size


def refuse_separator(kind: str, csv_separator: str | None) -> None:
    """Refuse a column separator for other files than ``.csv``."""
    if csv_separator is not None and kind != "csv":
        raise ValueError(f"it is not a .csv file, and csv_separator={csv_separator!r} is for those")


def _is_compressed(path: Path) -> bool:
    """Whether a file is compressed with gzip, according to its ending."""
    return path.suffix.lower() == ".gz"


def _open(path: Path, mode: str, **options: str | None) -> IO:
    """Open a file, decompressed."""
    return (gzip.open if _is_compressed(path) else open)(path, mode, **options)


def _detect_encoding(path: Path) -> str:
    """UTF-16 for a file with its byte order mark, otherwise UTF-8, with or without a mark."""
    with _open(path, "rb") as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _refuse_ambiguous_name(path: Path) -> None:
    """Refuse names that ``datasets`` would take for a URL or a pattern of other files."""
    place = path.absolute().as_posix().removeprefix(path.absolute().drive)
    if "::" in place or (_is_compressed(path) and (":/" in place or "\\" in place or re.search(r"[][*]", path.name))):
        decompressed = " or decompress it" if _is_compressed(path) and "::" not in place else ""
        raise ValueError(f"{path} cannot be opened by datasets under this name: rename it{decompressed}.")


def _refuse_no_bytes(path: Path) -> None:
    """Refuse an empty file, or a Parquet file without rows."""
    with _open(path, "rb") as file:
        if not file.read(1):
            raise ValueError("it is empty")
    if file_format(path) == "parquet":
        import pyarrow.parquet

        if pyarrow.parquet.read_metadata(path).num_rows == 0:
            raise ValueError("it holds no rows")


def reader_options(path: Path, kind: str, csv_separator: str | None, encoding: str | None) -> dict[str, Any]:
    """The keyword arguments for the reader of a file, of a table pandas'; options that do not fit it are refused."""
    refuse_separator(kind, csv_separator)
    if kind == "parquet":
        if encoding is not None:
            raise ValueError(f"it is not a text file, and encoding={encoding!r} is for text files")
        return {}
    encoding = encoding or _detect_encoding(path)
    if kind == "json":
        if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
            raise ValueError(f"it is encoded in {encoding}, and JSON is read in UTF-8: save it in UTF-8")
        return {"encoding": "utf-8" if encoding == "utf-8-sig" else encoding}
    if kind == "text":
        return {"encoding": encoding}
    _refuse_no_bytes(path)
    separator = _separator(path, csv_separator, encoding)
    columns = _csv_columns(path, encoding, separator)
    # By default, pandas reads "NA" as missing, "007" as a number, and "true" as a boolean.
    options: dict[str, Any] = {"encoding": encoding, "sep": separator, "na_filter": False}
    if MARKER in columns:
        options["names"] = [original_cell(name) for name in columns]
        options["header"] = 0
        options["converters"] = dict.fromkeys(range(len(columns)), original_cell)
    else:
        options["converters"] = dict.fromkeys(range(len(columns)), str)
    return options


def _csv_columns(path: Path, encoding: str, separator: str) -> list[str]:
    """The names in the header of a file, as pandas reads them."""
    with _open(path, "rt", encoding=encoding, newline="") as file:
        return plain_csv.header(file, separator)


def read_csv_rows(path: Path, options: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Read a .csv file with the options of ``reader_options``, without the column that marks what safe_csv wrote."""
    with _open(path, "rt", encoding=options["encoding"], newline="") as file:
        for row in plain_csv.records(file, options["sep"]):
            if MARKER in row:
                row = {original_cell(name): original_cell(value) for name, value in row.items() if name != MARKER}
            yield row


def _separator(path: Path, given: str | None, encoding: str) -> str:
    """The given separator, or the usual one of the ending; refuse a file that seems to have another one."""
    if given is not None:
        given = given.replace("\\t", "\t")  # as typed in a shell
        if len(given) != 1:
            raise ValueError(f"csv_separator must be one character, got {given!r}")
        return given
    usual = "\t" if without_gz(path).suffix.lower() == ".tsv" else ","
    with _open(path, "rt", encoding=encoding) as file:
        header = file.readline(CHARACTERS_TO_LOOK_AT)
    columns = next(csv.reader([header], delimiter=usual), [])
    others = [separator for separator in SEPARATORS if separator in header]
    if len(columns) == 1 and others:
        raise ValueError(
            f"it has one column, {columns[0]!r}. The columns look separated by {others[0]!r}: pass "
            f"csv_separator={others[0]!r} (or {usual!r} if they are not)"
        )
    return usual


def _has_rows_by_line(path: Path, encoding: str) -> bool:
    """Whether a JSON file has an object in each line."""
    if _is_compressed(path):
        return False
    with open(path, "rb") as file:
        try:
            return isinstance(json.loads(file.readline().decode(encoding)), dict)
        except (json.JSONDecodeError, RecursionError):  # an object or a list over several lines, or nested too deeply
            return False


def _read_ranges(ranges: list[tuple], encoding: str) -> Iterator[dict[str, Any]]:
    """Read the rows in ranges of JSON lines: path, start and end in bytes, and the file's state for the cache."""
    for path, start, end, _ in ranges:
        with naming(Path(path)):
            for line in lines_between(Path(path), start, end):
                row = json.loads(line.decode(encoding)) if line.strip() else {}
                if not isinstance(row, dict):
                    raise ValueError(f"a line is {str(row)[:80]!r}, not an object with columns")
                if row:
                    yield row
