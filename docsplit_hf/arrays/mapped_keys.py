"""Keys (embeddings) that stay on the disk: memory-mapped matrices in safetensors files."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WRITTEN_ROWS = 65_536  # written at a time
# Pages that were read count as memory of the process until they are released to the system's page cache.
MIN_RELEASED_BYTES = 2**30  # pages of smaller files are not released
BYTES_BETWEEN_RELEASES = 2**26  # releasing many pages at once takes long
MAPPED_BYTES_PER_ROW = 2**16  # an estimate: the system also maps the pages around a row
TAKEN_ROWS = 2**12  # copied at a time
_MAX_HEADER_BYTES = 100_000_000  # the limit of safetensors
_DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16)}


class KeyFile:
    """A memory-mapped matrix of a safetensors file; pickled as its path."""

    def __init__(self, path: Path, name: str = "keys") -> None:
        self.path = Path(path)
        self.name = name
        with open(path, "rb") as file:
            self.names, dtype, shape, offset = _find_matrix(file, name)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_RANDOM)  # otherwise the system reads 128 KB for each row
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # a system without large pages
                self._map.madvise(mmap.MADV_NOHUGEPAGE)  # otherwise each row counts as 2 MB of memory
        self.array = np.ndarray(shape, dtype, self._map, offset)

    def __reduce__(self) -> Any:
        return KeyFile, (self.path, self.name)

    def release(self) -> None:
        """Release the pages in memory. Arrays stay valid: pages are read again when needed."""
        self._map.madvise(mmap.MADV_DONTNEED)


class MappedKeys:
    """Keys ``(N, D)``, float32 or float16, with the parts of an array's interface that search and indexing use.

    ``sha256``: of the contents of all files. ``kept``: int64, the rows of the files that are not removed; None for all.
    ``added``: rows in memory, which follow those of the files.
    """

    ndim = 2

    def __init__(
        self, files: Sequence[KeyFile], sha256: str, kept: np.ndarray | None = None, added: np.ndarray | None = None
    ) -> None:
        self.files = tuple(files)
        self.kept = kept
        first = self.files[0].array
        self.added = first[:0].copy() if added is None else added
        self._arrays = [*(file.array for file in self.files), self.added]
        self._ends = np.cumsum([len(array) for array in self._arrays])
        self._in_files = int(self._ends[-1]) - len(self.added)
        self.mapped = self._in_files if kept is None else len(kept)
        self.dtype = first.dtype
        self.shape = (self.mapped + len(self.added), first.shape[1])
        # Name of the cached index; None if the keys differ from those of the files.
        self.sha256 = sha256 if kept is None and len(self.added) == 0 else None
        self._files_sha256 = sha256
        self._bytes_read = 0  # since the last release
        self._is_large = sum(file.array.nbytes for file in self.files) > MIN_RELEASED_BYTES

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        return MappedKeys, (self.files, self._files_sha256, self.kept, self.added)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def astype(self, dtype: Any, order: str = "C", copy: bool = True) -> np.ndarray:
        """Return all keys in memory."""
        return self[:].astype(dtype, order=order, copy=copy)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            return self._take(np.flatnonzero(rows) if rows.dtype == bool else rows)
        start, stop, step = rows.indices(len(self))
        if step != 1 or (self.kept is not None and start < self.mapped):
            return self._take(np.arange(start, stop, step))
        removed = self._in_files - self.mapped  # rows of the files, which come before added rows
        stop = max(start, stop) + removed
        start += removed
        parts = []
        for array, end in zip(self._arrays, self._ends.tolist(), strict=True):
            begin = end - len(array)
            if start < end and stop > begin:
                parts.append(array[max(start - begin, 0) : stop - begin])
        self._release_after((stop - start) * self.dtype.itemsize * self.shape[1])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else self.added[:0]

    def keep(self, kept: np.ndarray) -> MappedKeys:
        """Select rows, bool ``(N,)``, without copying those in files."""
        added = self.added[kept[self.mapped :]]
        added.flags.writeable = False
        rows = np.flatnonzero(kept[: self.mapped])
        return MappedKeys(self.files, self._files_sha256, rows if self.kept is None else self.kept[rows], added)

    def with_added(self, added: np.ndarray) -> MappedKeys:
        """Replace the rows in memory."""
        return MappedKeys(self.files, self._files_sha256, self.kept, added)

    def _take(self, rows: np.ndarray) -> np.ndarray:
        flat = rows.ravel()
        flat = np.where(flat < 0, flat + len(self), flat)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(self):
            raise IndexError(f"There are {len(self)} rows, not row {int(flat.max())}.")
        if self.kept is not None:
            is_in_file = flat < self.mapped
            positions = flat + (self._in_files - self.mapped)  # of added rows
            positions[is_in_file] = self.kept[flat[is_in_file]]
            flat = positions
        order = np.argsort(flat, kind="stable")  # reads each file from its beginning to its end
        ordered = flat[order]
        places = np.concatenate([[0], np.searchsorted(ordered, self._ends)])
        taken = np.empty((len(flat), self.shape[1]), self.dtype)
        for array, end, first, last in zip(self._arrays, self._ends, places[:-1], places[1:], strict=True):
            for start in range(first, last, TAKEN_ROWS):
                part = slice(start, min(start + TAKEN_ROWS, last))
                taken[order[part]] = array[ordered[part] - (end - len(array))]
                self._release_after((part.stop - part.start) * MAPPED_BYTES_PER_ROW)
        return taken.reshape(*rows.shape, self.shape[1])

    def _release_after(self, size: int) -> None:
        self._bytes_read += size
        if self._is_large and self._bytes_read > BYTES_BETWEEN_RELEASES:
            self._bytes_read = 0
            for file in self.files:
                file.release()


def write_tensors(arrays: dict[str, np.ndarray | MappedKeys], path: Path) -> None:
    """Write a safetensors file as ``save_file`` does; mapped keys are written in parts."""
    from safetensors.numpy import save_file

    if not any(isinstance(array, MappedKeys) for array in arrays.values()):
        return save_file(arrays, path)
    header = {}
    start = 0
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))  # the order of save_file
    for name, array in arrays.items():
        size = array.dtype.itemsize * len(array) * array.shape[1]
        dtype = next(name for name, dtype in _DTYPES.items() if dtype == array.dtype)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, start + size]}
        start += size
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)  # aligns the data
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for array in arrays.values():
            for first in range(0, len(array), WRITTEN_ROWS):
                file.write(np.ascontiguousarray(array[first : first + WRITTEN_ROWS]))
    return None


def _find_matrix(file: Any, name: str) -> tuple[list[str], np.dtype, tuple[int, int], int]:
    """Find a matrix in a safetensors file (8 bytes with the header's length, a JSON header, data).

    Returns the names of all tensors in the file, and the matrix's dtype, shape and offset in bytes.
    """
    size = os.fstat(file.fileno()).st_size
    try:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(_MAX_HEADER_BYTES, size - 8):
            raise ValueError(f"its header would have {length} bytes")
        header = json.loads(file.read(length))
        entry = header[name]
        dtype = _DTYPES[entry["dtype"]]
        rows, width = entry["shape"]
        start, end = entry["data_offsets"]
        fits = all(type(number) is int and number >= 0 for number in (rows, width, start, end))
        if not fits or end - start != rows * width * dtype.itemsize or 8 + length + end > size:
            raise ValueError(f"{name} {entry['shape']} does not fit its bytes, {start} to {end} of {size}")
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it has no matrix {name!r} of float32 or float16: {error}") from error
    return list(header), dtype, (rows, width), 8 + length + start
