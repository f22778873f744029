"""Keys, the embeddings of rows: checks, additions, and exact search."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np

from .mapped_keys import MappedKeys

LARGEST_VALUE = 1e15  # a squared distance stays far below the largest float32, 3.4e38
BLOCK_ROWS = 65_536  # checked at a time
BLOCK_BYTES = 64 * 2**20  # of float32 converted or gathered at a time
CACHED_BYTES = 2**20  # of float32 gathered at a time for small products, in the cache of the processor
SEARCHED_BYTES = 4 * 2**20  # of float32 searched at a time: fits the cache of a processor
FEW_DISTANCES = 4_000_000  # computed fast by NumPy; FAISS is faster for more, but takes long to import
# Fetched beyond k: FAISS computes |q|^2 - 2qx + |x|^2 for batches, whose rounding may change the order.
EXTRA_CANDIDATES = 16
FLOAT16_INFINITY = 0x7C00  # bits
FLOAT16_WITHOUT_SIGN = 0x7FFF  # bit mask


def as_matrix(values: Any, name: str, dimension: int | None = None) -> np.ndarray:
    """Convert an array, a CPU tensor or lists to ``(N, D)``, keeping the dtype; ``name``: for error messages."""
    matrix = np.asarray(values)
    columns = "D" if dimension is None else dimension
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or matrix.shape[1] != (dimension or matrix.shape[1] or -1):
        raise ValueError(
            f"{name} must be numbers of shape (N, {columns}), one row for each text, got {matrix.dtype} of shape "
            f"{matrix.shape}."
        )
    return matrix


def as_queries(values: Any, name: str, dimension: int) -> np.ndarray:
    """Convert finite numbers to contiguous float32 ``(Q, D)``."""
    matrix = as_matrix(values, name, dimension)
    check_finite(matrix, name)
    return matrix.astype(np.float32, order="C", copy=False)


def as_float32(array: np.ndarray) -> np.ndarray:
    """Convert to float32, without a copy if possible."""
    torch = sys.modules.get("torch")  # ten times as fast as NumPy for float16, and not worth an import
    if torch is None or array.dtype != np.float16:
        return array.astype(np.float32, copy=False)
    return torch.tensor(array, dtype=torch.float32).numpy()


def check_finite(matrix: np.ndarray, name: str) -> None:
    """Refuse NaN, infinity, and numbers with squares near the largest float32."""
    for start in range(0, len(matrix), BLOCK_ROWS):
        block = matrix[start : start + BLOCK_ROWS]
        if block.dtype == np.float16:  # compare bits, since comparing float16 is slow
            is_valid = int((block.view(np.uint16) & FLOAT16_WITHOUT_SIGN).max()) < FLOAT16_INFINITY
        else:  # False for NaN; makes no copy of the block
            is_valid = float(block.min()) >= -LARGEST_VALUE and float(block.max()) <= LARGEST_VALUE
        if not is_valid:
            row = start + int(np.argmin((np.abs(block.astype(np.float64)) <= LARGEST_VALUE).all(axis=1)))
            raise ValueError(
                f"{name}: row {row} holds NaN, infinity or a number beyond {LARGEST_VALUE:g} (as {matrix.dtype}). "
                "Embed its text again."
            )


def freeze(*arrays: Any) -> None:
    """Make arrays read-only; keys in files already are."""
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


def with_rows(array: np.ndarray | MappedKeys, rows: np.ndarray) -> Any:
    """Append rows, which may have more columns; the result is read-only."""
    if isinstance(array, MappedKeys):
        return array.with_added(with_rows(array.added, rows))
    grown = np.zeros((len(array) + len(rows), *rows.shape[1:]), array.dtype)
    grown[(slice(len(array)), *map(slice, array.shape[1:]))] = array
    with np.errstate(over="ignore"):  # too large for float16: becomes infinite, which check_finite refuses
        grown[len(array) :] = rows
    freeze(grown)
    return grown


def exact_search(queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the k nearest keys: squared L2 distances, float32 ``(Q, k)``, and rows, int64; lower rows first if equal.

    ``queries``: float32 ``(Q, D)``. ``keys``: float32 ``(N, D)``, searched in place; float16 or mapped keys are
    converted 4 MiB at a time. ``k``: from 1 to N.
    """
    count = min(k + EXTRA_CANDIDATES, len(keys))
    in_place = isinstance(keys, np.ndarray) and keys.dtype == np.float32
    is_large = len(queries) * len(keys) > FEW_DISTANCES
    with_faiss = is_large and importlib.util.find_spec("faiss") is not None
    nearest_of = _nearest_by_numpy
    if with_faiss:
        import faiss

        nearest_of = faiss.knn
    step = len(keys) if in_place and with_faiss else max(SEARCHED_BYTES // (4 * keys.shape[1]), 1)
    distances = np.empty((len(queries), 0), dtype=np.float32)
    rows = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(keys), step):
        block = as_float32(keys[start : start + step])
        block_distances, block_rows = nearest_of(queries, block, min(count, len(block)))
        distances = np.hstack([distances, block_distances])
        rows = np.hstack([rows, block_rows + start])
        if rows.shape[1] > count:
            nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
            distances = np.take_along_axis(distances, nearest, 1)
            rows = np.take_along_axis(rows, nearest, 1)
    return nearest_candidates(queries, keys, rows, k)


def _nearest_by_numpy(queries: np.ndarray, keys: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``count`` nearest keys in any order, lower rows first if equal: squared L2 distances, and rows."""
    queries = queries - keys[0]  # differences of large squares would be rounded
    keys = keys - keys[0]
    norms = np.vecdot(keys, keys)
    found = np.empty((len(queries), count), np.float32)
    rows = np.empty((len(queries), count), np.int64)
    step = max(BLOCK_BYTES // (4 * len(keys)), 1)
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        distances = np.vecdot(block, block)[:, None] - 2 * (block @ keys.T) + norms
        largest = np.partition(distances, count - 1, axis=1)[:, count - 1 : count]
        is_equal = distances == largest
        is_chosen = distances < largest
        missing = count - is_chosen.sum(axis=1, keepdims=True)
        is_chosen |= is_equal & (np.cumsum(is_equal, axis=1, dtype=np.int32) <= missing)  # the first if equal
        rows[start : start + step] = np.nonzero(is_chosen)[1].reshape(len(distances), count)
        found[start : start + step] = np.take_along_axis(distances, rows[start : start + step], axis=1)
    return found, rows


def nearest_candidates(
    queries: np.ndarray, keys: np.ndarray, candidates: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Search among ``candidates``, int64 ``(Q, M)``, -1 for none; missing results are row -1 at distance infinity."""
    distances = candidate_distances(queries, keys, candidates)
    distances[candidates < 0] = np.inf
    order = np.lexsort((candidates, distances))[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def candidate_distances(queries: np.ndarray, keys: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Compute ``sum((q - x)^2)`` of each query to its candidates, float32 ``(Q, M)``."""
    distances = np.empty(candidates.shape, dtype=np.float32)
    step = max(CACHED_BYTES // (4 * keys.shape[1] * candidates.shape[1]), 1)
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        difference = as_float32(keys[candidates[block]])  # (q, M, D), a copy
        difference -= queries[block, None]
        distances[block] = np.einsum("qmd,qmd->qm", difference, difference)
    return distances
