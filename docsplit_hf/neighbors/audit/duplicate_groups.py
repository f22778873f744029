"""Groups of examples that are the same, or nearly: by their texts, or by their embeddings where no texts are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..store.duplicates import EQUAL_DISTANCE, number_texts
from ..store.row_table import joined_texts
from .near_duplicates import near_duplicates
from .nearest_examples import nearest_examples

if TYPE_CHECKING:
    import pyarrow as pa

# Of embeddings. Below it there are more texts of one topic than changed copies; above it are a quarter of these
# where texts are short, and three quarters where they are long.
NEAR_COSINE = 0.95


class DuplicateGroup(NamedTuple):
    """Rows that are copies of one another, or of copies."""

    rows: list[int]
    similarity: float  # the lowest of the pairs that make it a group
    exact: bool


def duplicate_groups(rows: pa.Table, vectors: np.ndarray) -> list[DuplicateGroup]:
    """The groups of a table's rows, the most similar first; ``vectors`` are their embeddings, of norm 1."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    texts, pairs = rows["text"].to_pylist(), rows["text_pair"].to_pylist()
    equal = number_texts(rows, texts, pairs)[0]  # -1 where no text is kept
    found = [
        near_duplicates(joined_texts(texts, pairs)),
        _equal_texts(equal),
        _near_vectors(vectors, np.flatnonzero(equal < 0)),
    ]
    edges = np.concatenate([ends for ends, _ in found])
    similarity = np.concatenate([alike for _, alike in found])
    graph = sp.coo_array((np.ones(len(edges)), tuple(edges.T)), (len(texts), len(texts)))
    group = connected_components(graph, directed=False)[1]
    members = _rows_by_group(group, np.arange(len(group)))
    of_edge = _rows_by_group(group[edges[:, 0]], np.arange(len(edges)))
    groups = []
    for number, own in of_edge.items():
        rows_of, alike = members[number], similarity[own]
        no_texts = equal[rows_of[0]] < 0
        exact = len(np.unique(equal[rows_of])) == 1 and not (no_texts and (alike < 1).any())
        groups.append(DuplicateGroup(rows_of.tolist(), float(alike.min()), exact))
    return sorted(groups, key=lambda group: (not group.exact, -group.similarity, group.rows))


def _rows_by_group(groups: np.ndarray, rows: np.ndarray) -> dict[int, np.ndarray]:
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(rows[order], starts[1:]) if len(rows) else [], strict=True))


def _equal_texts(equal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each text and the next one that equals it: also texts without words."""
    order = np.argsort(equal, kind="stable")
    same = (equal[order][1:] == equal[order][:-1]) & (equal[order][1:] >= 0)
    edges = np.stack([order[:-1][same], order[1:][same]], axis=1)
    return edges, np.ones(len(edges))


def _near_vectors(vectors: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(rows) < 2:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    near = nearest_examples(vectors[rows])
    first, rank = np.nonzero(near.cosines >= NEAR_COSINE)
    cosines = near.cosines[first, rank].astype(np.float64)
    cosines[2 - 2 * cosines <= max(EQUAL_DISTANCE, 4 * np.finfo(np.float32).eps)] = 1.0
    return np.stack([rows[first], rows[near.rows[first, rank]]], axis=1), cosines.clip(0, 1)
