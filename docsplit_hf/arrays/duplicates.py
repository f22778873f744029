"""Stored rows with the same text, or with the same embedding, as given texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..reading.characters import replace_lone_surrogates
from .keys import candidate_distances
from .row_table import values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from .snapshot import SearchResult, Snapshot

# Relative to the squared norm. Embeddings of one text in two batches differ by about 1e-12; those of texts that differ
# in one of hundreds of words, by more than 1e-6.
EQUAL_DISTANCE = 1e-10
EQUAL = 1e-9  # the same for vectors that were centered and normalized


def number_texts(
    table: pa.Table, texts: Sequence[str | None], text_pairs: Sequence[str | None] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Number the rows of a table and some texts; numbers are equal if and only if text and pair are.

    Returns int64 ``(N,)`` for the rows, -1 for rows with none of the texts, and ``(M,)`` for the texts. A text of None
    equals no text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    given = pa.array([text and replace_lone_surrogates(text) for text in texts], pa.string())
    second_texts = [None] * len(given) if text_pairs is None else text_pairs
    pairs = pa.array([pair and replace_lone_surrogates(pair) for pair in second_texts], pa.string())

    def numbers(text: pa.ChunkedArray, text_pair: pa.ChunkedArray) -> np.ndarray:
        first = pc.index_in(text, value_set=given.unique(), skip_nulls=True)
        second = pc.index_in(text_pair, value_set=pairs.unique())
        first = pc.fill_null(first, -1).to_numpy().astype(np.int64)
        second = pc.fill_null(second, -1).to_numpy().astype(np.int64)
        return np.where((first < 0) | (second < 0), -1, first * len(pairs) + second)

    return numbers(table["text"], table["text_pair"]), numbers(pa.chunked_array([given]), pa.chunked_array([pairs]))


def rows_of_texts(table: pa.Table, texts: Sequence[str], text_pairs: Sequence[str | None]) -> np.ndarray:
    """The last row of a table with each text and pair, int64 ``(M,)``; -1 without one."""
    in_table, own = number_texts(table, texts, text_pairs)
    rows = {number: row for row, number in enumerate(in_table.tolist()) if number >= 0}
    return np.array([rows.get(number, -1) for number in own.tolist()], dtype=np.int64)


def equal_neighbors(
    neighbors: SearchResult, queries: np.ndarray, texts: Sequence[str | None], text_pairs: Sequence[str | None] | None
) -> np.ndarray:
    """Mark results, bool ``(Q, k)``, with the text and pair of the query, or with an equal embedding."""
    in_table, own = number_texts(neighbors.table, texts, text_pairs)
    equal_texts = (in_table[neighbors.rows] == own[:, None]) & (own >= 0)[:, None]
    norms = np.square(queries, dtype=np.float64).sum(1, keepdims=True)
    distances = neighbors.distances
    if neighbors.nearest is not None:  # the passages of a document may all be in a longer one
        distances = candidate_distances(queries.astype(np.float32, copy=False), neighbors.keys, neighbors.rows)
    return equal_texts | (distances <= EQUAL_DISTANCE * norms)


class StoredExample(NamedTuple):
    """The text and pair, the labels and the id of a row."""

    content: tuple[str, str | None]
    labels: frozenset[str]
    id: str


def examples_of_texts(
    snapshot: Snapshot, texts: Sequence[str], text_pairs: Sequence[str | None]
) -> list[StoredExample]:
    """The rows with one of these texts and its pair, in their order."""
    in_table, own = number_texts(snapshot.rows, texts, text_pairs)
    contents = dict(zip(own.tolist(), zip(texts, text_pairs, strict=True), strict=True))
    rows = np.flatnonzero(np.isin(in_table, own) & (in_table >= 0))
    ids = values_of(snapshot.rows["id"], rows)
    found = []
    for number, label, row_id in zip(in_table[rows].tolist(), snapshot.labels[rows], ids, strict=True):
        numbers = np.flatnonzero(label) if label.ndim else [label]
        labels = frozenset(snapshot.label_names[i] for i in numbers)
        found.append(StoredExample(contents[number], labels, row_id))
    return found
