"""Read tables (JSON, CSV, Parquet and lines of text) as rows, with errors that name the file."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .csv_files import MARKER, csv_records, original_cell

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

    kind = file_format(path)
    path = path.absolute()
    with naming(path):
        encoding = checked_encoding(path, csv_separator, encoding)
        if kind in ("csv", "text"):
            if next(read_table_rows(path, csv_separator, encoding), None) is None:
                raise ValueError("it holds no rows")
            # The state changes with the file: ``datasets`` names its cache after the arguments.
            given = {"path": path, "csv_separator": csv_separator, "encoding": encoding, "state": file_state(path)}
            kind_of_rows = datasets.IterableDataset if streaming else datasets.Dataset
            return kind_of_rows.from_generator(_named_rows, gen_kwargs=given)
        if streaming and kind == "json" and _has_rows_by_line(path, encoding):
            state = file_state(path)
            ranges = [(str(path), start, end, state) for start, end in byte_ranges(path.stat().st_size)]
            return datasets.IterableDataset.from_generator(
                _read_ranges, gen_kwargs={"ranges": ranges, "encoding": encoding}
            )
        rows = _load_by_datasets(path, kind, streaming, encoding)
    return rows.reshard() if streaming and kind == "parquet" else rows


def _load_by_datasets(path: Path, kind: str, streaming: bool, encoding: str) -> Dataset | IterableDataset:
    """Load a file of JSON or Parquet by ``datasets``, under a name that it does not take for another one."""
    import datasets
    import pyarrow.parquet
    from datasets.data_files import DataFilesList

    place = path.as_posix()
    if "::" in place or (_is_compressed(path) and (":/" in place or "\\" in place or re.search(r"[][*]", path.name))):
        decompressed = " or decompress it" if _is_compressed(path) and "::" not in place else ""
        raise ValueError(f"it cannot be opened by datasets under this name: rename it{decompressed}")
    # DataFilesList, because a string is a pattern that another file might match.
    data_files = {"train": DataFilesList([str(path)], [tuple(map(str, file_state(path)))])}
    options = {"encoding": encoding.removesuffix("-sig")} if kind == "json" else {}
    if kind == "parquet" and pyarrow.parquet.read_metadata(path).num_rows == 0:
        raise ValueError("it holds no rows")
    if next(iter(datasets.load_dataset(kind, data_files=data_files, split="train", streaming=True, **options)), 0) == 0:
        raise ValueError("it holds no rows")
    return datasets.load_dataset(kind, data_files=data_files, split="train", streaming=streaming, **options)


def read_table_rows(
    path: Path, csv_separator: str | None = None, encoding: str | None = None
) -> Iterator[dict[str, Any]]:
    """Read the rows of a .csv, .json, .jsonl or .txt file as they are, one by one; fields of .csv stay strings."""
    kind = file_format(path)
    if kind == "json":
        yield from read_json_rows(path, encoding)
        return
    encoding = encoding or _detect_encoding(path)
    if kind == "text":
        with _open(path, "rt", encoding=encoding) as file:
            yield from ({"text": line.rstrip("\n")} for line in file)
        return
    with _open(path, "rt", encoding=encoding, newline="") as file:
        for row in csv_records(file, _separator(path, csv_separator, encoding)):
            if MARKER in row:  # what safe_csv wrote
                row = {original_cell(name): original_cell(value) for name, value in row.items() if name != MARKER}
            yield row


def _named_rows(
    path: Path, csv_separator: str | None, encoding: str, state: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    """Read rows, with errors that name the file, also those after its beginning."""
    with naming(path):
        yield from read_table_rows(path, csv_separator, encoding)


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
    except Exception as error:
        is_general = type(error).__name__ == "DatasetGenerationError"  # by which datasets replaces others
        if not is_general and not isinstance(error, UNREADABLE):
            raise
        reason = error.__cause__ if is_general and error.__cause__ is not None else error
        hint = ""
        if isinstance(reason, UnicodeDecodeError) or isinstance(reason.__cause__, UnicodeDecodeError):
            hint = " Give its encoding: encoding='cp1252' for many files from Windows, 'latin-1', ..."
        message = (str(reason) or repr(reason)).strip().rstrip(".")
        if message.startswith(f"{path.absolute()} cannot be used"):  # as load_table names it
            raise reason from None
        raise ValueError(f"{path} cannot be used: {message}.{hint}") from error


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


def checked_encoding(path: Path, csv_separator: str | None, encoding: str | None) -> str:
    """The encoding to read a table in; an empty file is refused, and options that do not fit it."""
    kind = file_format(path)
    refuse_separator(kind, csv_separator)
    if kind == "parquet" and encoding is not None:
        raise ValueError(f"it is not a text file, and encoding={encoding!r} is for text files")
    with _open(path, "rb") as file:
        if not file.read(1):
            raise ValueError("it is empty")
    if kind == "parquet":
        return ""
    encoding = encoding or _detect_encoding(path)
    if kind == "json" and codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        raise ValueError(f"it is encoded in {encoding}, and JSON is read in UTF-8: save it in UTF-8")
    return encoding


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
