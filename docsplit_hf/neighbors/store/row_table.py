"""The ids and texts of a datastore's rows: an Arrow table with the columns ``id``, ``text`` and ``text_pair``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...text.characters import replace_lone_surrogates

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = ("id", "text", "text_pair")
# Small chunks of a column; adding one example at a time makes a chunk each, and each makes look-ups slower.
MOST_CHUNKS, SMALL_CHUNK = 256, 4_096
LOOKED_AT = 100  # numbers, for ids that nobody has


def make_rows(
    count: int,
    ids: Iterable[str],
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
) -> pa.Table:
    """A table of as many rows as there are keys; ids must be different strings."""
    import pyarrow as pa

    columns = {}
    for name, given in (("id", ids), ("text", texts), ("text_pair", text_pairs)):
        values = [None] * count if given is None else list(given)
        if len(values) != count:
            raise ValueError(f"There are {count} keys, but {len(values)} of {name}: pass one for each key.")
        for row, value in enumerate(values):
            if not isinstance(value, str) and (value is not None or name == "id"):
                raise ValueError(f"The {name} of row {row} is {value!r}, not a string.")
        try:
            columns[name] = pa.chunked_array(pa.array(values, pa.string()))
        except UnicodeEncodeError as error:
            row = next(row for row, value in enumerate(values) if value and replace_lone_surrogates(value) != value)
            raise ValueError(
                f"The {name} of row {row} has half a character (a lone surrogate) at {error.start}: clean it with "
                "docsplit_hf.text.characters.replace_lone_surrogates."
            ) from error
    table = pa.table(columns)
    if (repeated := repeated_id(table)) is not None:
        raise ValueError(f"The id {repeated!r} is given twice: give each row an id of its own.")
    return table


def repeated_id(rows: pa.Table) -> str | None:
    """The first id that more than one row has."""
    import pyarrow.compute as pc

    counts = pc.value_counts(rows["id"])
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return repeated[0]["values"].as_py() if len(repeated) else None


def fault_of_ids(ids: pa.ChunkedArray) -> str | None:
    """What is wrong with the ids of rows that were read; None if nothing is."""
    import pyarrow as pa

    if ids.null_count:
        return "a row has no id"
    repeated = repeated_id(pa.table({"id": ids}))
    return None if repeated is None else f"the id {repeated!r} is there twice"


def append_rows(rows: pa.Table, more: pa.Table, *taken: pa.Table) -> pa.Table:
    """Tables one after the other, in the memory of the two; no id of ``more`` may be in another of the tables."""
    import pyarrow as pa

    if repeated := sorted(ids_among(more["id"], rows, *taken)):
        raise ValueError(f"The id {repeated[0]!r} is there already: remove it first, or give another.")
    joined = pa.concat_tables([rows, more])
    lengths = [len(chunk) for chunk in joined["id"].chunks]
    # Those up to the last large one stay as they are: they may lie on the disk.
    large = 1 + max((number for number, length in enumerate(lengths) if length >= SMALL_CHUNK), default=-1)
    if len(lengths) - large <= MOST_CHUNKS:
        return joined
    first = sum(lengths[:large])
    return pa.concat_tables([joined.slice(0, first), joined.slice(first).combine_chunks()])


def joined_texts(texts: Sequence[str | None], pairs: Sequence[str | None]) -> list[str]:
    """The words of a pair are those of both texts; a text that is not kept has none."""
    return [f"{text or ''} {pair}" if pair else text or "" for text, pair in zip(texts, pairs, strict=True)]


def values_of(column: pa.ChunkedArray, rows: np.ndarray) -> list[str | None]:
    """The values of some rows. Arrow's own ``take`` joins all chunks of texts first, which may be too many for it."""
    ends = np.cumsum([len(chunk) for chunk in column.chunks], dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    places = np.searchsorted(rows[order], np.concatenate([[0], ends]))
    values: list[str | None] = [None] * len(rows)
    for chunk, end, first, last in zip(column.chunks, ends, places[:-1], places[1:], strict=True):
        if last > first:
            own = order[first:last]
            for place, value in zip(own, chunk.take(rows[own] - (end - len(chunk))).to_pylist(), strict=True):
                values[place] = value
    return values


def rows_at(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Some rows, as a table in memory."""
    import pyarrow as pa

    return pa.table({name: pa.chunked_array([pa.array(values_of(table[name], rows), pa.string())]) for name in TEXTS})


def without(rows: pa.Table, kept: np.ndarray) -> pa.Table:
    """Some rows, bool ``(N,)``; chunks that keep all of theirs stay where they lie."""
    import pyarrow as pa

    parts, start = [rows.slice(0, 0)], 0
    for chunk in rows["id"].chunks:
        part, own = rows.slice(start, len(chunk)), kept[start : start + len(chunk)]
        parts.append(part if own.all() else part.filter(pa.array(own)))
        start += len(chunk)
    return pa.concat_tables(parts)


def ids_among(ids: Iterable[str], *tables: pa.Table) -> set[str]:
    """Those ids that rows of any of the tables have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = ids if isinstance(ids, pa.ChunkedArray) else pa.array(ids, pa.string())
    found = [rows["id"].filter(pc.is_in(rows["id"], value_set=wanted)) for rows in tables]
    return {row_id for column in found for row_id in column.to_pylist()}


def automatic_ids(count: int, next_id: int, *tables: pa.Table, prefix: str = "") -> tuple[list[str], int]:
    """Ids by a counter that stands at ``next_id`` and skips ids that tables have, and where it stands then."""
    ids: list[str] = []
    while len(ids) < count:
        candidates = [f"{prefix}{number}" for number in range(next_id, next_id + max(count - len(ids), LOOKED_AT))]
        taken = ids_among(candidates, *tables)
        free = [place for place, candidate in enumerate(candidates) if candidate not in taken][: count - len(ids)]
        ids += [candidates[place] for place in free]
        # Given ids may be millions of such numbers.
        next_id = next_id + free[-1] + 1 if free else max(next_id, _largest_number(prefix, *tables)) + 1
    return ids, next_id


def _largest_number(prefix: str, *tables: pa.Table) -> int:
    """The largest number below a million million that stands behind the prefix in an id."""
    import pyarrow.compute as pc

    largest = 0
    for rows in tables:
        numbered = rows["id"].filter(pc.match_substring_regex(rows["id"], f"^{prefix}[0-9]{{1,12}}$"))
        numbers = pc.cast(pc.utf8_slice_codeunits(numbered, len(prefix)), "int64")
        largest = max(largest, pc.max(numbers).as_py() or 0)
    return largest


def renew_automatic_ids(
    rows: pa.Table, counter: int, next_id: int, *tables: pa.Table, prefix: str = ""
) -> tuple[pa.Table, int]:
    """Rows with ids that fit into another datastore: those that their ``counter`` gave are new, the others stay.

    Also where the other datastore's counter, which stands at ``next_id`` and skips ids that its tables have, stands
    then.
    """
    import pyarrow as pa

    ids = rows["id"].to_pylist()
    were_counted = [is_counted(row_id, counter, prefix) for row_id in ids]
    given = rows.filter(pa.array([not counted for counted in were_counted], pa.bool_()))
    fresh, next_id = automatic_ids(sum(were_counted), next_id, given, *tables, prefix=prefix)
    numbers = iter(fresh)
    renewed = [next(numbers) if counted else row_id for row_id, counted in zip(ids, were_counted, strict=True)]
    return rows.set_column(0, "id", pa.array(renewed, pa.string())), next_id


def is_counted(row_id: str, below: int, prefix: str = "") -> bool:
    """Whether an id has the form of those that a counter gave before it stood at ``below``."""
    number = row_id[len(prefix) :]
    digits = number.isascii() and number.isdecimal() and len(number) <= len(str(below))
    return row_id.startswith(prefix) and digits and str(int(number)) == number and int(number) < below
