"""Ids, texts, files and labels of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..reading.characters import replace_lone_surrogates
from ..reading.origins import Origin

if TYPE_CHECKING:
    import pyarrow as pa

ORIGIN_COLUMNS = ("file", "places")  # the file of a text, and its places as JSON
DESCRIPTION_ID_PREFIX = "label:"  # of ids of label descriptions, which are examples that are never held out
TEXT_COLUMNS = ("id", "text", "text_pair", *ORIGIN_COLUMNS)
# Each call of add makes a chunk of a column, and many chunks slow down look-ups.
MAX_SMALL_CHUNKS = 256  # with more, they are joined
SMALL_CHUNK = 4_096  # rows


class TextColumn(list[str | None]):
    """A column of a ``TextTable``, as much of one of pyarrow as answers need."""

    def to_pylist(self) -> list[str | None]:
        """The texts."""
        return self


@dataclass(frozen=True, eq=False)
class TextTable:
    """Columns of the same rows as lists, for processes that only answer, where importing pyarrow takes too long."""

    columns: Mapping[str, TextColumn]

    def __len__(self) -> int:
        return len(self.columns["id"])

    def __getitem__(self, name: str) -> TextColumn:
        """A column."""
        return self.columns[name]


def make_rows(
    count: int,
    ids: Iterable[str],
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
    origins: Iterable[Origin | None] | None = None,
) -> pa.Table:
    """Make a table of ``count`` rows with distinct ids."""
    import pyarrow as pa

    files: list[str | None] | None = None
    places: list[str | None] | None = None
    if origins is not None:
        origins = list(origins)
        files = [None if origin is None else origin.file for origin in origins]
        places = [None if origin is None else origin.places_as_json() for origin in origins]
    columns = {}
    given = {"id": ids, "text": texts, "text_pair": text_pairs, "file": files, "places": places}
    for name, column in given.items():
        values = [None] * count if column is None else list(column)
        if len(values) != count:
            raise ValueError(f"There are {count} keys, but {len(values)} values of {name}: pass one for each key.")
        for row, value in enumerate(values):
            if not isinstance(value, str) and (value is not None or name == "id"):
                raise ValueError(f"The {name} of row {row} is {value!r}, not a string.")
        try:
            columns[name] = pa.chunked_array(pa.array(values, pa.string()))
        except UnicodeEncodeError as error:
            row = next(row for row, value in enumerate(values) if value and replace_lone_surrogates(value) != value)
            raise ValueError(
                f"The {name} of row {row} has half a character (a lone surrogate) at {error.start}: clean it with "
                "docsplit_hf.reading.characters.replace_lone_surrogates."
            ) from error
    table = pa.table(columns)
    repeated = _repeated(table["id"])
    if repeated is not None:
        raise ValueError(f"The id {repeated!r} is given twice: give each row its own id.")
    return table


def with_origin_columns(table: pa.Table) -> pa.Table:
    """Add empty columns for the files of the texts, if the table has none."""
    import pyarrow as pa

    for name in ORIGIN_COLUMNS:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), pa.string()))
    return table


def has_origins(table: pa.Table) -> bool:
    """Whether a row has a file."""
    return table["file"].null_count < len(table)


def origins_of(table: pa.Table) -> list[Origin | None]:
    """Return the file and the places of each row; None for a row without a file."""
    rows = zip(table["file"].to_pylist(), table["places"].to_pylist(), strict=True)
    return [None if file is None else Origin.from_json(file, places) for file, places in rows]


def describe_invalid_origins(table: pa.Table) -> str | None:
    """Describe what is wrong with files and places from a file; None if they are valid."""
    if not has_origins(table):
        return None if table["places"].null_count == len(table) else "a row has places, and no file"
    try:
        origins_of(table)
    except ValueError as error:
        return str(error)
    return None


def describe_invalid_ids(ids: pa.ChunkedArray) -> str | None:
    """Describe what is wrong with ids from a file; None if they are valid."""
    if ids.null_count:
        return "a row has no id"
    repeated = _repeated(ids)
    return None if repeated is None else f"the id {repeated!r} occurs twice"


def _repeated(ids: pa.ChunkedArray) -> str | None:
    """Return the first repeated id; None without one."""
    import pyarrow.compute as pc

    counts = pc.value_counts(ids)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return repeated[0]["values"].as_py() if len(repeated) else None


def append_rows(rows: pa.Table, new: pa.Table, *others: pa.Table) -> pa.Table:
    """Concatenate tables without copying; raise if an id of ``new`` is in ``rows`` or ``others``."""
    import pyarrow as pa

    repeated = sorted(ids_among(new["id"], rows, *others))
    if repeated:
        raise ValueError(f"The id {repeated[0]!r} is there already: remove it first, or give another.")
    joined = pa.concat_tables([rows, new])
    lengths = [len(chunk) for chunk in joined["id"].chunks]
    # Chunks up to the last large one are not joined: they may be on the disk.
    large = 1 + max((number for number, length in enumerate(lengths) if length >= SMALL_CHUNK), default=-1)
    if len(lengths) - large <= MAX_SMALL_CHUNKS:
        return joined
    first = sum(lengths[:large])
    return pa.concat_tables([joined.slice(0, first), joined.slice(first).combine_chunks()])


def values_of(column: pa.ChunkedArray | TextColumn, rows: np.ndarray) -> list[str | None]:
    """Return the values of some rows. Arrow's ``take`` joins all chunks first, which fails on too many texts."""
    if isinstance(column, TextColumn):
        return [column[row] for row in rows.tolist()]
    ends = np.cumsum([len(chunk) for chunk in column.chunks], dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    bounds = np.searchsorted(rows[order], np.concatenate([[0], ends]))
    values: list[str | None] = [None] * len(rows)
    for chunk, end, first, last in zip(column.chunks, ends, bounds[:-1], bounds[1:], strict=True):
        if last > first:
            own = order[first:last]
            for place, value in zip(own, chunk.take(rows[own] - (end - len(chunk))).to_pylist(), strict=True):
                values[place] = value
    return values


def rows_at(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Copy some rows to a table in memory."""
    import pyarrow as pa

    return pa.table(
        {name: pa.chunked_array([pa.array(values_of(table[name], rows), pa.string())]) for name in TEXT_COLUMNS}
    )


def without(rows: pa.Table, kept: np.ndarray) -> pa.Table:
    """Return the rows with a true value in ``kept``, bool ``(N,)``; chunks without removed rows are not copied."""
    import pyarrow as pa

    parts = [rows.slice(0, 0)]
    start = 0
    for chunk in rows["id"].chunks:
        part = rows.slice(start, len(chunk))
        kept_in_part = kept[start : start + len(chunk)]
        parts.append(part if kept_in_part.all() else part.filter(pa.array(kept_in_part)))
        start += len(chunk)
    return pa.concat_tables(parts)


def ids_among(ids: Iterable[str], *tables: pa.Table) -> set[str]:
    """Return the ids that are in any of the tables."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = ids if isinstance(ids, pa.ChunkedArray) else pa.array(ids, pa.string())
    found = [rows["id"].filter(pc.is_in(rows["id"], value_set=wanted)) for rows in tables]
    return {row_id for column in found for row_id in column.to_pylist()}


def counted_ids(ids: Sequence[str | None], next_id: int, *tables: pa.Table, prefix: str = "") -> tuple[list[str], int]:
    """Replace None by unused numbers from ``next_id`` on; also return the next number."""
    missing = sum(row_id is None for row_id in ids)
    given_ids = [row_id for row_id in ids if row_id is not None]
    candidates = [f"{prefix}{number}" for number in range(next_id, next_id + missing)]
    if ids_among(candidates, *tables) or not set(candidates).isdisjoint(given_ids):
        # Given ids may be such numbers: continue after the largest.
        next_id = max(next_id, _largest_number(prefix, make_rows(len(given_ids), given_ids), *tables) + 1)
        candidates = [f"{prefix}{number}" for number in range(next_id, next_id + missing)]
    remaining = iter(candidates)
    return [next(remaining) if row_id is None else row_id for row_id in ids], next_id + missing


def _largest_number(prefix: str, *tables: pa.Table) -> int:
    """Return the largest number, of up to 12 digits, after the prefix in an id."""
    import pyarrow.compute as pc

    largest = 0
    for rows in tables:
        numbered = rows["id"].filter(pc.match_substring_regex(rows["id"], f"^{prefix}[0-9]{{1,12}}$"))
        numbers = pc.cast(pc.utf8_slice_codeunits(numbered, len(prefix)), "int64")
        largest = max(largest, pc.max(numbers).as_py() or 0)
    return largest


def encode_labels(
    labels: Iterable[Any], label_names: tuple[str, ...], multi_label: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Encode labels as int64 ``(N,)`` or bool ``(N, C)``; also return the C names, with new ones appended."""
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    known = len(label_names)
    numbers = {name: i for i, name in enumerate(label_names)}

    def number(label: Any, row: int) -> int:
        if isinstance(label, str):
            return numbers.setdefault(label, len(numbers))
        if not isinstance(label, (int, np.integer)) or isinstance(label, bool):
            expected = "a list of names or numbers" if multi_label else "a name or a number"
            raise ValueError(f"The label of row {row} is {label!r}: pass {expected}.")
        if not 0 <= label < known:
            raise ValueError(f"The label of row {row} is {label}, but there are {known} labels: {list(label_names)}.")
        return int(label)

    if not multi_label:
        encoded = np.fromiter((number(label, row) for row, label in enumerate(labels)), np.int64, len(labels))
        return encoded, tuple(numbers)
    rows: list[int] = []
    columns: list[int] = []
    for row, row_labels in enumerate(labels):
        if not isinstance(row_labels, (list, tuple, set, frozenset, np.ndarray)):
            raise ValueError(
                f"The labels of row {row} are {row_labels!r}: pass a list, because rows of this datastore have several "
                "labels."
            )
        found = [number(label, row) for label in row_labels]
        if len(set(found)) < len(found):
            raise ValueError(
                f"The labels of row {row} contain one twice: {row_labels!r}. Pass its labels, not a vector of 0 and 1."
            )
        rows += [row] * len(found)
        columns += found
    encoded = np.zeros((len(labels), len(numbers)), dtype=bool)
    encoded[rows, columns] = True
    return encoded, tuple(numbers)


def encode_known_labels(labels: Iterable[Any], label_names: tuple[str, ...], multi_label: bool) -> np.ndarray:
    """Encode labels as ``encode_labels`` does, and refuse new ones."""
    encoded, names = encode_labels(labels, label_names, multi_label)
    new = names[len(label_names) :]
    if new:
        raise ValueError(f"The datastore has no label {new[0]!r}, only {', '.join(label_names) or 'none'}.")
    return encoded


def text_lengths(rows: pa.Table | TextTable, missing: int) -> np.ndarray:
    """Return the length of each text in characters, int64 ``(N,)``; ``missing`` without a text."""
    if isinstance(rows, TextTable):
        return np.array([missing if text is None else len(text) for text in rows["text"]], np.int64)
    import pyarrow.compute as pc

    return pc.fill_null(pc.utf8_length(rows["text"]), missing).to_numpy().astype(np.int64)
