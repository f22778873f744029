"""Keys: matrices of embeddings, which are checked, get more rows at the end, and are searched exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from .mapped_keys import MappedKeys

LARGEST_VALUE = 1e15  # a squared distance stays far below the largest float32, 3.4e38
BLOCK_ROWS = 65_536
BLOCK_BYTES = 64 * 2**20  # of float32, for what is converted or gathered at a time
SEARCHED_BYTES = 4 * 2**20  # the same for what is searched meanwhile: it stays in the processor's cache
SPARE_CANDIDATES = 16  # beyond k: for batches FAISS computes |q|^2 - 2qx + |x|^2, whose rounding may swap the last ones


def as_matrix(given: Any, what: str, dimension: int | None = None) -> np.ndarray:
    """An array, a CPU tensor or lists as ``(N, D)``, of the dtype that it has; the error calls it ``what``."""
    matrix = np.asarray(given)
    columns = "D" if dimension is None else dimension
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or matrix.shape[1] != (dimension or matrix.shape[1] or -1):
        raise ValueError(
            f"{what} must be numbers of shape (N, {columns}), one row for each text, got {matrix.dtype} of shape "
            f"{matrix.shape}."
        )
    return matrix


def as_queries(given: Any, what: str, dimension: int) -> np.ndarray:
    """Finite numbers as contiguous float32 ``(Q, D)``."""
    matrix = as_matrix(given, what, dimension)
    check_finite(matrix, what)
    return matrix.astype(np.float32, order="C", copy=False)


def as_float32(array: np.ndarray) -> np.ndarray:
    """An array as float32: itself, if it is, else a copy; of float16 by torch, which takes a tenth of NumPy's time."""
    if array.dtype != np.float16:
        return array.astype(np.float32, copy=False)
    import torch

    return torch.tensor(array, dtype=torch.float32).numpy()


def check_finite(matrix: np.ndarray, what: str) -> None:
    """Refuse NaN, infinity, and numbers whose squares come near the largest float32."""
    for start in range(0, len(matrix), BLOCK_ROWS):
        block = matrix[start : start + BLOCK_ROWS]
        if block.dtype == np.float16:  # whose comparisons are slow: finite is what has an exponent below the largest
            fine = int((block.view(np.uint16) & 0x7FFF).max()) < 0x7C00
        else:  # False for NaN, and without a copy of the block
            fine = float(block.min()) >= -LARGEST_VALUE and float(block.max()) <= LARGEST_VALUE
        if not fine:
            row = start + int(np.argmin((np.abs(block.astype(np.float64)) <= LARGEST_VALUE).all(axis=1)))
            raise ValueError(
                f"{what}: row {row} holds NaN, infinity or a number beyond {LARGEST_VALUE:g} (as {matrix.dtype}). "
                "Embed its text again."
            )


def freeze(*arrays: Any) -> None:
    """Make arrays read-only; keys in files are."""
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


class GrowingArrays:
    """Arrays, by name, that get rows at the end in time that does not depend on how many they have.

    One writer at a time. What was handed out never changes: new rows are written behind all that is in use.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray] = {}

    def append(self, name: str, array: np.ndarray | MappedKeys, rows: np.ndarray) -> Any:
        """An array with more rows, read-only, and copied unless its rows are here; zeros where new ones are wider."""
        if isinstance(array, MappedKeys):
            return array.with_added(self.append(name, array.added, rows))
        buffer, length, end = self._buffers.get(name), len(array), len(array) + len(rows)
        if buffer is None or array.base is not buffer or end > len(buffer) or rows.shape[1:] != buffer.shape[1:]:
            # Doubled, but not at first: a datastore that stays as it was built takes no more than it needs.
            buffer = np.zeros((max(end, 2 * length), *rows.shape[1:]), array.dtype)
            buffer[(slice(length), *map(slice, array.shape[1:]))] = array
            self._buffers[name] = buffer
        with np.errstate(over="ignore"):  # what is too large for float16 becomes infinite: check_finite refuses it
            buffer[length:end] = rows
        view = buffer[:end]
        view.flags.writeable = False
        return view


def exact_search(queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared L2 distances to the k nearest keys, float32 ``(Q, k)``, and their rows, int64; the lower of equals first.

    ``queries``: float32 ``(Q, D)``. ``keys``: float32 ``(N, D)``, searched where they lie; or float16, or mapped,
    converted 4 MiB at a time. ``k``: from 1 to N.
    """
    import faiss

    count = min(k + SPARE_CANDIDATES, len(keys))
    as_it_lies = isinstance(keys, np.ndarray) and keys.dtype == np.float32
    step = len(keys) if as_it_lies else max(SEARCHED_BYTES // (4 * keys.shape[1]), 1)
    distances = np.empty((len(queries), 0), dtype=np.float32)
    rows = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(keys), step):
        block = as_float32(keys[start : start + step])
        found, found_rows = faiss.knn(queries, block, min(count, len(block)))
        distances, rows = np.hstack([distances, found]), np.hstack([rows, found_rows + start])
        if rows.shape[1] > count:
            nearest = np.argpartition(distances, count - 1, axis=1)[:, :count]
            distances, rows = np.take_along_axis(distances, nearest, 1), np.take_along_axis(rows, nearest, 1)
    return nearest_candidates(queries, keys, rows, k)


def nearest_candidates(
    queries: np.ndarray, keys: np.ndarray, candidates: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """As ``exact_search`` among ``candidates``, int64 ``(Q, M)``, -1 for none; -1 at infinity where these are few."""
    distances = candidate_distances(queries, keys, candidates)
    distances[candidates < 0] = np.inf
    order = np.lexsort((candidates, distances))[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def candidate_distances(queries: np.ndarray, keys: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The distances ``sum((q - x)^2)`` of each query from its candidates, float32 ``(Q, M)``."""
    distances = np.empty(candidates.shape, dtype=np.float32)
    step = max(BLOCK_BYTES // (4 * keys.shape[1] * candidates.shape[1]), 1)
    for start in range(0, len(queries), step):
        block = slice(start, start + step)
        difference = as_float32(keys[candidates[block]])  # (q, M, D), a copy
        difference -= queries[block, None]
        distances[block] = np.einsum("qmd,qmd->qm", difference, difference)
    return distances
