"""What a datastore keeps of each row beside its key: labels as numbers, and id and texts in an Arrow table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CHUNKS = 256  # of a column; adding one example at a time makes a chunk each, and each makes look-ups slower


def has_several_labels(labels: Sequence[Any]) -> bool:
    """Whether the first of some labels is a list, tuple, set or array.

    Args:
        labels: The labels of rows.

    Returns:
        False if there are none.

    Example:

        >>> has_several_labels([["a", "b"], []]), has_several_labels(["a", "b"])
        (True, False)
    """
    first = next(iter(labels), None)
    return isinstance(first, (list, tuple, set, frozenset)) or np.ndim(first) > 0


def encode_labels(
    labels: Iterable[Any], label_names: tuple[str, ...], multi_label: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as numbers, with names that were not known yet at the end.

    Args:
        labels: For each of N rows a number or a name; with ``multi_label`` a list of them, which may be empty.
        label_names: The names that are known.
        multi_label: Whether a row may have several labels.

    Returns:
        int64 ``(N,)``, or bool ``(N, C)``; and the C names.

    Raises:
        ValueError: If a label is neither a name nor a number of ``label_names``, or a row names one twice.

    Example:

        >>> encode_labels(["fruit", 0, "mineral"], ("fruit",), multi_label=False)
        (array([0, 0, 1]), ('fruit', 'mineral'))
    """
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
    rows, columns = [], []
    for row, several in enumerate(labels):
        if not isinstance(several, (list, tuple, set, frozenset, np.ndarray)):
            raise ValueError(f"The labels of row {row} are {several!r}: pass a list, as rows have several labels here.")
        found = [number(label, row) for label in several]
        if len(set(found)) < len(found):
            raise ValueError(
                f"The labels of row {row} name one twice: {several!r}. Pass the labels that it has, not a vector of 0 "
                "and 1."
            )
        rows += [row] * len(found)
        columns += found
    encoded = np.zeros((len(labels), len(numbers)), dtype=bool)
    encoded[rows, columns] = True
    return encoded, tuple(numbers)


def rename_labels(
    labels: np.ndarray, label_names: tuple[str, ...], others: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels numbered by other names, with names that are not among them at the end.

    Args:
        labels: int64 ``(N,)``, or bool ``(N, C)``.
        label_names: Their C names.
        others: The names to number them by.

    Returns:
        int64 ``(N,)``, or bool ``(N, L)``; and the L names.

    Example:

        >>> rename_labels(np.array([0, 1]), ("fruit", "mineral"), ("mineral",))
        (array([1, 0]), ('mineral', 'fruit'))
    """
    names = (*others, *(name for name in label_names if name not in others))
    numbers = {name: i for i, name in enumerate(names)}
    order = np.array([numbers[name] for name in label_names], dtype=np.int64)
    if labels.ndim == 1:
        return order[labels], names
    renamed = np.zeros((len(labels), len(names)), dtype=bool)
    renamed[:, order] = labels
    return renamed, names


def make_rows(
    count: int,
    ids: Iterable[str],
    texts: Iterable[str | None] | None = None,
    text_pairs: Iterable[str | None] | None = None,
) -> pa.Table:
    """Ids and texts of rows as a table.

    Args:
        count: The number of rows.
        ids: Their ids, each a string of its own.
        texts: Their texts, None where there is none.
        text_pairs: The second texts of pairs.

    Returns:
        The columns ``id``, ``text`` and ``text_pair``, strings.

    Raises:
        ValueError: If there are more or fewer of something than rows, something is not a string, or ids repeat.

    Example:

        >>> make_rows(2, ["a", "b"], ["One.", None]).to_pylist()[0]
        {'id': 'a', 'text': 'One.', 'text_pair': None}
    """
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
            row = next(row for row, value in enumerate(values) if value and not _is_unicode(value))
            raise ValueError(
                f"The {name} of row {row} has half a character (a lone surrogate) at {error.start}: clean it with "
                "docsplit_hf.text.segmentation.documents.replace_lone_surrogates."
            ) from error
    table = pa.table(columns)
    if (repeated := repeated_id(table)) is not None:
        raise ValueError(f"The id {repeated!r} is given twice: give each row an id of its own.")
    return table


def repeated_id(rows: pa.Table) -> str | None:
    """An id that more than one row has.

    Args:
        rows: With the column ``id``.

    Returns:
        The first such id, or None.

    Example:

        >>> import pyarrow as pa
        >>> repeated_id(pa.table({"id": ["a", "b", "b"]}))
        'b'
    """
    import pyarrow.compute as pc

    counts = pc.value_counts(rows["id"])
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    return repeated[0]["values"].as_py() if len(repeated) else None


def append_rows(rows: pa.Table, more: pa.Table) -> pa.Table:
    """Tables one after the other.

    Args:
        rows: As ``make_rows`` gives them.
        more: The same, with other ids.

    Returns:
        The table, which shares its memory with the two.

    Raises:
        ValueError: If an id is in both.

    Example:

        >>> append_rows(make_rows(1, ["a"]), make_rows(1, ["b"]))["id"].to_pylist()
        ['a', 'b']
    """
    import pyarrow as pa

    if taken := sorted(ids_among(more["id"], rows)):
        raise ValueError(f"The id {taken[0]!r} is there already: remove it first, or give another.")
    joined = pa.concat_tables([rows, more])
    return joined.combine_chunks() if joined["id"].num_chunks > MOST_CHUNKS else joined


def ids_among(ids: Iterable[str], rows: pa.Table) -> set[str]:
    """Those ids that rows have.

    Args:
        ids: The ids to look for.
        rows: As ``make_rows`` gives them.

    Returns:
        The ids that are there.

    Example:

        >>> ids_among(["a", "x"], make_rows(2, ["a", "b"]))
        {'a'}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = ids if isinstance(ids, pa.ChunkedArray) else pa.array(ids, pa.string())
    return set(rows["id"].filter(pc.is_in(rows["id"], value_set=wanted)).to_pylist())


def automatic_ids(count: int, next_id: int, rows: pa.Table) -> tuple[list[str], int]:
    """Ids for rows that were given none: a counter, which skips ids that are taken.

    Args:
        count: How many.
        next_id: Where the counter stands.
        rows: The rows that are there.

    Returns:
        The ids, and where the counter stands then.

    Example:

        >>> automatic_ids(2, 0, make_rows(1, ["1"]))
        (['0', '2'], 3)
    """
    ids: list[str] = []
    while len(ids) < count:
        candidates = [str(number) for number in range(next_id, next_id + count - len(ids))]
        next_id += len(candidates)
        taken = ids_among(candidates, rows)
        ids += [candidate for candidate in candidates if candidate not in taken]
    return ids, next_id


def renew_automatic_ids(rows: pa.Table, counter: int, others: pa.Table, next_id: int) -> tuple[pa.Table, int]:
    """Rows of one datastore with ids that fit into another: the counter's are new, those that were given stay.

    Args:
        rows: The rows.
        counter: Where the counter of their datastore stands. What has the form of its ids, a number below it, is one.
        others: The rows of the other datastore.
        next_id: Where its counter stands.

    Returns:
        The rows, and where the counter of the other datastore stands then.

    Raises:
        ValueError: If an id that stays is in both.

    Example:

        >>> rows, next_id = renew_automatic_ids(make_rows(2, ["0", "a"]), 1, make_rows(1, ["0"]), 1)
        >>> rows["id"].to_pylist(), next_id
        (['1', 'a'], 2)
    """
    import pyarrow as pa

    ids = rows["id"].to_pylist()
    is_counted = [_is_number(row_id, counter) for row_id in ids]
    given = rows.filter(pa.array([not counted for counted in is_counted], pa.bool_()))
    fresh, next_id = automatic_ids(sum(is_counted), next_id, append_rows(others, given))
    numbers = iter(fresh)
    renewed = [next(numbers) if counted else row_id for row_id, counted in zip(ids, is_counted, strict=True)]
    return rows.set_column(0, "id", pa.array(renewed, pa.string())), next_id


def _is_number(row_id: str, below: int) -> bool:
    digits = row_id.isascii() and row_id.isdecimal() and len(row_id) <= len(str(below))
    return digits and str(int(row_id)) == row_id and int(row_id) < below


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
