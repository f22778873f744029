"""Matrices of embeddings: checking what is given, and growing what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST_VALUE = 1e15  # a squared distance stays far below the largest float32, 3.4e38
BLOCK_ROWS = 65_536
PROBE_TOLERANCE = 0.1  # of the norm: other weights differ by about 1, another dtype or device by less than 0.01


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


def as_float32(array: np.ndarray) -> np.ndarray:
    """An array as float32: itself, if it is, else a copy; of float16 by torch, which takes a tenth of NumPy's time."""
    if array.dtype != np.float16:
        return array.astype(np.float32, copy=False)
    import torch

    return torch.from_numpy(np.asarray(_Unguarded(array))).float().numpy()


class _Unguarded:
    """An array that is read-only, of which torch would warn, though it is only read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


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


def check_probe(probe: np.ndarray, stored: np.ndarray) -> None:
    """Refuse an encoder whose embeddings of the probe texts, ``(P, D)``, are not nearly those that are stored.

    Rows that only one of the two has are those of int8 behind those of float32: they do not tell encoders apart.
    """
    probe, stored = probe[: len(stored)], stored[: len(probe)]
    remedy = "The datastore was built by another encoder: load that one, or build the datastore again with this one."
    if probe.shape != stored.shape:
        raise ValueError(f"The encoder gives embeddings {probe.shape}, the datastore has {stored.shape}. {remedy}")
    difference, norm = np.linalg.norm(probe - stored), np.linalg.norm(stored)
    if not difference <= PROBE_TOLERANCE * norm:  # NaN is refused too
        raise ValueError(
            f"The encoder's embeddings of the probe texts differ from the datastore's by {difference:.3g}, whose norm "
            f"is {norm:.3g}. {remedy}"
        )


def freeze(*arrays: Any) -> None:
    """Make arrays read-only; keys in files are."""
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


class GrowableArray:
    """Rows to which others are appended, in time that does not depend on how many there are.

    What was handed out never changes: new rows are written behind all that any view shows.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._buffer = array

    def appended(self, length: int, rows: np.ndarray) -> np.ndarray:
        """A read-only view of the first ``length`` rows, those of the longest view in use, and others after them.

        Rows are converted to the dtype of the array. Where they are wider, the first rows have zeros.
        """
        end = length + len(rows)
        if end > len(self._buffer) or rows.shape[1:] != self._buffer.shape[1:]:
            # Doubled, but not at first: a datastore that stays as it was built takes no more than it needs.
            larger = np.zeros((max(end, 2 * length), *rows.shape[1:]), self._buffer.dtype)
            old = (slice(length), *map(slice, map(min, rows.shape[1:], self._buffer.shape[1:])))
            larger[old] = self._buffer[old]
            self._buffer = larger
        if len(rows):  # the first rows may be read-only
            with np.errstate(over="ignore"):  # what is too large for float16 becomes infinite: check_finite refuses it
                self._buffer[length:end] = rows
        view = self._buffer[:end]
        view.flags.writeable = False
        return view
