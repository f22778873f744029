"""Keys that stay on the disk: matrices in safetensors files, of which rows and ranges are read."""

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

WRITTEN_ROWS = 65_536  # at a time
# What was read counts as memory of the process until it is given back, and stays in the page cache of the system then.
# Small files may count whole; of large ones it is given back a little at a time, as much at once takes long.
KEPT_BYTES, RELEASE_BYTES = 2**30, 2**26
BYTES_PER_ROW = 2**16  # the system maps the neighborhood of a page that is read
TAKEN_ROWS = 2**12  # at a time
_LONGEST_HEADER = 100_000_000  # as safetensors has it
_DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16)}


class KeyFile:
    """One matrix of a safetensors file, mapped; pickled as its path."""

    def __init__(self, path: Path, name: str = "keys") -> None:
        self.path, self.name = Path(path), name
        with open(path, "rb") as file:
            self.names, (dtype, shape, offset) = _find_matrix(file, name)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_RANDOM)  # else each row that is read from the disk brings 128 KB along
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # of a system without large pages
                self._map.madvise(mmap.MADV_NOHUGEPAGE)  # else each row that is read from the page cache counts as 2 MB
        self.array = np.ndarray(shape, dtype, self._map, offset)

    def __reduce__(self) -> Any:
        return KeyFile, (self.path, self.name)

    def release(self) -> None:
        """Give back what was read. Arrays of it stay valid: it is read again where they are looked at."""
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)


class MappedKeys:
    """Keys ``(N, D)``, float32 or float16: as much of an array as searches, and builds of an index, ask for.

    ``files``: one after the other. ``sha256``: of all that they hold. ``kept``: int64, which of their rows there are;
    None for all. ``added``: rows in memory, after these.
    """

    ndim = 2

    def __init__(
        self, files: Sequence[KeyFile], sha256: str, kept: np.ndarray | None = None, added: np.ndarray | None = None
    ) -> None:
        self.files, self.kept = tuple(files), kept
        first = self.files[0].array
        self.added = first[:0].copy() if added is None else added
        self._arrays = [*(file.array for file in self.files), self.added]
        self._ends = np.cumsum([len(array) for array in self._arrays])
        self._in_files = int(self._ends[-1]) - len(self.added)
        self.mapped = self._in_files if kept is None else len(kept)
        self.dtype, self.shape = first.dtype, (self.mapped + len(self.added), first.shape[1])
        # What an index of the keys is kept under; None once they are others than those of the files.
        self.sha256 = sha256 if kept is None and len(self.added) == 0 else None
        self._of_files, self._read = sha256, 0
        self._is_large = sum(file.array.nbytes for file in self.files) > KEPT_BYTES

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        return MappedKeys, (self.files, self._of_files, self.kept, self.added)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def astype(self, dtype: Any, order: str = "C", copy: bool = True) -> np.ndarray:
        """All keys in memory."""
        return self[:].astype(dtype, order=order, copy=copy)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            return self._take(np.flatnonzero(rows) if rows.dtype == bool else rows)
        start, stop, step = rows.indices(len(self))
        if step != 1 or (self.kept is not None and start < self.mapped):
            return self._take(np.arange(start, stop, step))
        moved = self._in_files - self.mapped  # 0, but for rows that are added behind those that are kept
        start, stop = start + moved, max(start, stop) + moved
        parts = []
        for array, end in zip(self._arrays, self._ends.tolist(), strict=True):
            begin = end - len(array)
            if start < end and stop > begin:
                parts.append(array[max(start - begin, 0) : stop - begin])
        self._count((stop - start) * self.dtype.itemsize * self.shape[1])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else self.added[:0]

    def keep(self, kept: np.ndarray) -> MappedKeys:
        """Some of the rows, bool ``(N,)``, which stay where they are."""
        added = self.added[kept[self.mapped :]]
        added.flags.writeable = False
        rows = np.flatnonzero(kept[: self.mapped])
        return MappedKeys(self.files, self._of_files, rows if self.kept is None else self.kept[rows], added)

    def with_added(self, added: np.ndarray) -> MappedKeys:
        """The same rows of the files, with these in memory behind them."""
        return MappedKeys(self.files, self._of_files, self.kept, added)

    def _take(self, rows: np.ndarray) -> np.ndarray:
        flat = rows.ravel()
        flat = np.where(flat < 0, flat + len(self), flat)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(self):
            raise IndexError(f"There are {len(self)} rows, not row {int(flat.max())}.")
        if self.kept is not None:
            of_files = flat < self.mapped
            flat = flat + (self._in_files - self.mapped)
            flat[of_files] = self.kept[flat[of_files] - (self._in_files - self.mapped)]
        order = np.argsort(flat, kind="stable")  # file by file, and forward in each
        ordered = flat[order]
        places = np.concatenate([[0], np.searchsorted(ordered, self._ends)])
        taken = np.empty((len(flat), self.shape[1]), self.dtype)
        for array, end, first, last in zip(self._arrays, self._ends, places[:-1], places[1:], strict=True):
            for start in range(first, last, TAKEN_ROWS):
                part = slice(start, min(start + TAKEN_ROWS, last))
                taken[order[part]] = array[ordered[part] - (end - len(array))]
                self._count((part.stop - part.start) * BYTES_PER_ROW)
        return taken.reshape(*rows.shape, self.shape[1])

    def _count(self, size: int) -> None:
        self._read += size
        if self._is_large and self._read > RELEASE_BYTES:
            self._read = 0
            for file in self.files:
                file.release()


def write_tensors(arrays: dict[str, np.ndarray | MappedKeys], path: Path) -> None:
    """As ``save_file`` of safetensors, but of keys in files a part at a time."""
    from safetensors.numpy import save_file

    if not any(isinstance(array, MappedKeys) for array in arrays.values()):
        return save_file(arrays, path)
    header, start = {}, 0
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))  # as save_file does
    for name, array in arrays.items():
        size = array.dtype.itemsize * len(array) * array.shape[1]
        dtype = next(name for name, dtype in _DTYPES.items() if dtype == array.dtype)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, start + size]}
        start += size
    said = json.dumps(header, separators=(",", ":")).encode()
    said += b" " * (-len(said) % 8)  # so that data is aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(said)) + said)
        for array in arrays.values():
            for first in range(0, len(array), WRITTEN_ROWS):
                file.write(np.ascontiguousarray(array[first : first + WRITTEN_ROWS]))
    return None


def _find_matrix(file: Any, name: str) -> tuple[list[str], tuple[np.dtype, tuple[int, int], int]]:
    """What a safetensors file (8 bytes of length, a header of JSON, data) holds; dtype, shape and place of a matrix."""
    size = os.fstat(file.fileno()).st_size
    try:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(_LONGEST_HEADER, size - 8):
            raise ValueError(f"its header is said to have {length} bytes")
        header = json.loads(file.read(length))
        entry = header[name]
        dtype, (rows, width), (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        fits = all(type(number) is int and number >= 0 for number in (rows, width, start, end))
        if not fits or end - start != rows * width * dtype.itemsize or 8 + length + end > size:
            raise ValueError(f"{name} {entry['shape']} does not fit its bytes, {start} to {end} of {size}")
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it holds no matrix {name!r} of float32 or float16: {error}") from error
    return list(header), (dtype, (rows, width), 8 + length + start)
