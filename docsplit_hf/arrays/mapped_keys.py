"""Keys (embeddings) that stay on the disk: memory-mapped matrices in safetensors files."""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Iterator, Mapping
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

    ``sha256``: of the content of the file. ``kept``: int64, the rows of the file that are not removed; None for all.
    ``added``: rows in memory, which follow those of the file.
    """

    ndim = 2

    def __init__(
        self, file: KeyFile, sha256: str, kept: np.ndarray | None = None, added: np.ndarray | None = None
    ) -> None:
        self.file = file
        self.kept = kept
        self.added = file.array[:0].copy() if added is None else added
        self.mapped = len(file.array) if kept is None else len(kept)
        self.dtype = file.array.dtype
        self.shape = (self.mapped + len(self.added), file.array.shape[1])
        # Name of the cached index; None if the keys differ from those of the file.
        self.sha256 = sha256 if kept is None and len(self.added) == 0 else None
        self._file_sha256 = sha256

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> Any:
        return MappedKeys, (self.file, self._file_sha256, self.kept, self.added)

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
        wanted = rows.ravel()
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        order = np.argsort(wanted, kind="stable")  # reads the file from its beginning to its end
        in_file, in_memory = np.split(order, [np.count_nonzero(wanted < self.mapped)])
        places = wanted[in_file] if self.kept is None else self.kept[wanted[in_file]]
        taken = np.empty((len(wanted), self.shape[1]), self.dtype)
        taken[in_file] = self.file.array[places]
        taken[in_memory] = self.added[wanted[in_memory] - self.mapped]
        return taken.reshape(*rows.shape, self.shape[1])

    def keep(self, kept: np.ndarray) -> MappedKeys:
        """Select rows, bool ``(N,)``, without copying those in the file."""
        added = self.added[kept[self.mapped :]]
        added.flags.writeable = False
        rows = np.flatnonzero(kept[: self.mapped])
        return MappedKeys(self.file, self._file_sha256, rows if self.kept is None else self.kept[rows], added)

    def with_added(self, added: np.ndarray) -> MappedKeys:
        """Replace the rows in memory."""
        return MappedKeys(self.file, self._file_sha256, self.kept, added)


def tensor_header(matrices: Mapping[str, tuple[np.dtype, tuple[int, ...]]]) -> bytes:
    """The beginning of a safetensors file, before matrices of these dtypes and shapes, one after another."""
    header = {}
    start = 0
    for name, (dtype, shape) in matrices.items():
        end = start + dtype.itemsize * math.prod(shape)
        kind = next(kind for kind, known in _DTYPES.items() if known == dtype)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)  # aligns the data
    return struct.pack("<Q", len(encoded)) + encoded


def write_tensors(arrays: dict[str, np.ndarray | MappedKeys], path: Path) -> None:
    """Write a safetensors file as ``save_file`` does; mapped keys are written in parts."""
    from safetensors.numpy import save_file

    if not any(isinstance(array, MappedKeys) for array in arrays.values()):
        return save_file(arrays, path)
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))  # the order of save_file
    with open(path, "wb") as file:
        file.write(tensor_header({name: (array.dtype, array.shape) for name, array in arrays.items()}))
        for array in arrays.values():
            for first in range(0, len(array), WRITTEN_ROWS):
                file.write(np.ascontiguousarray(array[first : first + WRITTEN_ROWS]))
    return None
