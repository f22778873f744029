"""Labels of a few texts, spread to the others along the graph of nearest neighbors (Zhou et al. 2004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..store.index import ROWS_PER_CENTROID, approximate_search, build_index, exact_search, set_nprobe

if TYPE_CHECKING:
    import scipy.sparse as sp

GRAPH_NEIGHBORS = 10
EXACT_GRAPH = 20_000  # texts; the time that an exact graph takes grows with their square
LISTS, NPROBE = 1024, 16
ALPHA, STEPS = 0.9, 40


def neighbor_graph(vectors: np.ndarray, k: int = GRAPH_NEIGHBORS) -> sp.csr_array:
    """The k nearest neighbors of each text by cosine ``c``, symmetric: ``D^(-1/2) A D^(-1/2)``, A of ``max(c, 0)^2``.

    ``vectors`` are ``(N, D)`` of norm 1. Beyond 20,000 texts the neighbors are approximate.
    """
    import scipy.sparse as sp

    count, k = len(vectors), min(k, len(vectors) - 1)
    if k < 1:
        return sp.csr_array((count, count), dtype=np.float32)
    found = nearest_rows(vectors, k + 1)
    rows, columns = np.repeat(np.arange(count), k + 1), found.ravel()
    others = (columns != rows) & (columns >= 0)
    rows, columns = rows[others], columns[others]
    cosines = np.concatenate(
        [np.einsum("nd,nd->n", vectors[rows[part]], vectors[columns[part]]) for part in _parts(len(rows))]
    )
    graph = sp.csr_array((np.square(cosines.clip(0)), (rows, columns)), (count, count))
    graph = graph.maximum(graph.T)
    scale = sp.diags_array(np.maximum(graph.sum(1), 1e-9) ** -0.5)
    return (scale @ graph @ scale).tocsr().astype(np.float32)


def nearest_rows(vectors: np.ndarray, k: int) -> np.ndarray:
    """The k nearest of all texts to each, itself among them, int64 ``(N, k)``; beyond 20,000 texts approximate.

    -1 where an index found too few.
    """
    if len(vectors) <= EXACT_GRAPH:
        return exact_search(vectors, vectors, k)[1]
    index = build_index(vectors, f"IVF{min(LISTS, len(vectors) // ROWS_PER_CENTROID)},Flat")
    set_nprobe(index, NPROBE)
    return approximate_search(index, vectors, k)


def spread_labels(graph: sp.csr_array, rows: np.ndarray, targets: np.ndarray, several: bool) -> np.ndarray:
    """Soft labels of all N texts, float32 ``(N, C)``, from ``targets`` ``(n, C)``, 0 or 1, of the texts ``rows``.

    ``F = 0.9 S F + 0.1 Y``, 40 times. With one label per text, each label is given the same mass in all, and each text
    a distribution. With several, F says which share of the examples that reach a text have the label. A text that no
    example reaches has all labels alike, or as often as the examples have them. Examples keep their own.
    """
    given = np.hstack([targets, np.ones((len(targets), 1))]) if several else targets
    start = np.zeros((graph.shape[0], given.shape[1]), np.float32)
    start[rows] = given
    spread = start
    for _ in range(STEPS):
        spread = ALPHA * (graph @ spread) + (1 - ALPHA) * start
    if several:
        reached, base = spread[:, -1:], targets.mean(0, keepdims=True)
        soft = np.where(reached > 0, spread[:, :-1] / np.maximum(reached, 1e-30), base).clip(0, 1)
    else:
        balanced = spread / np.maximum(spread.sum(0), 1e-30)
        mass = balanced.sum(1, keepdims=True)
        soft = np.where(mass > 0, balanced / np.maximum(mass, 1e-30), 1 / targets.shape[1])
    soft[rows] = targets
    return soft.astype(np.float32)


def _parts(count: int, size: int = 65_536) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]
