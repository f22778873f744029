"""Keys (embeddings) that stay on the disk: memory-mapped matrices in safetensors files."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

WRITTEN_ROWS = 65_536  # written at a time
_DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16)}


class KeyFile:
    """A memory-mapped matrix of a safetensors file; pickled as its path. ``names``: of all tensors in the file."""

    def __init__(self, path: Path, name: str = "keys") -> None:
        from safetensors import SafetensorError, safe_open

        self.path = Path(path)
        self.name = name
        try:
            with safe_open(path, "np") as tensors:  # which checks the header
                self.names = list(tensors.keys())
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                entry = json.loads(file.read(length))[name]
                dtype = _DTYPES[entry["dtype"]]
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"it has no matrix {name!r} of float32 or float16: {error}") from error
        mapped.madvise(mmap.MADV_RANDOM)  # otherwise the system reads 128 KB for each row
        self.array = np.ndarray(entry["shape"], dtype, mapped, 8 + length + entry["data_offsets"][0])

    def __reduce__(self) -> Any:
        return KeyFile, (self.path, self.name)


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

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        return MappedKeys, (self.files, self._files_sha256, self.kept, self.added)

    def __iter__(self) -> Iterator[np.ndarray]:
        for first in range(0, len(self), WRITTEN_ROWS):
            yield from self[first : first + WRITTEN_ROWS]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def astype(self, dtype: Any, order: str = "C", copy: bool = True) -> np.ndarray:
        """Return all keys in memory."""
        return self[:].astype(dtype, order=order, copy=copy)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        places = self._places(rows.ravel())
        order = np.argsort(places, kind="stable")  # reads each file from its beginning to its end
        ordered = places[order]
        starts = np.concatenate([[0], np.searchsorted(ordered, self._ends)])
        taken = np.empty((len(places), self.shape[1]), self.dtype)
        for array, end, first, last in zip(self._arrays, self._ends, starts[:-1], starts[1:], strict=True):
            taken[order[first:last]] = array[ordered[first:last] - (end - len(array))]
        return taken.reshape(*rows.shape, self.shape[1])

    def keep(self, kept: np.ndarray) -> MappedKeys:
        """Select rows, bool ``(N,)``, without copying those in files."""
        added = self.added[kept[self.mapped :]]
        added.flags.writeable = False
        rows = np.flatnonzero(kept[: self.mapped])
        return MappedKeys(self.files, self._files_sha256, rows if self.kept is None else self.kept[rows], added)

    def with_added(self, added: np.ndarray) -> MappedKeys:
        """Replace the rows in memory."""
        return MappedKeys(self.files, self._files_sha256, self.kept, added)

    def _places(self, rows: np.ndarray) -> np.ndarray:
        """The places of rows in the files and the memory, one after another."""
        rows = np.where(rows < 0, rows + len(self), rows)
        if self.kept is None:
            return rows
        places = rows + (self._in_files - self.mapped)  # of added rows
        is_in_file = rows < self.mapped
        places[is_in_file] = self.kept[rows[is_in_file]]
        return places


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
