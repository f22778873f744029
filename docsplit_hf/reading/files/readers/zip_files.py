"""Read the members of zip files within limits; nothing is written to the disk."""

from __future__ import annotations

import io
import zipfile
import zlib

from ..failures import DAMAGED, ENCRYPTED, TOO_MANY_PAGES, UNPACKS_TOO_LARGE, Refusal
from ..parts import Budget

LARGEST_RATIO = 200  # of unpacked to packed bytes; XML of office files has at most 50, the most for a zip bomb is 1,032
SMALL = 1_000_000  # bytes below which no ratio matters: a table of equal cells is no bomb
MOST_MEMBERS = 20_000
ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError, KeyError)


class ZipMembers:
    """The members of a zip file, by their names."""

    def __init__(self, content: bytes, budget: Budget) -> None:
        try:
            self._file = zipfile.ZipFile(io.BytesIO(content))
        except ERRORS as error:
            raise Refusal(DAMAGED, f"zip: {error}") from error
        self._budget = budget
        # A folder has no content. Two members may have the same name.
        self.files = [info for info in self._file.infolist() if info.file_size or not info.is_dir()]
        self._members = {info.filename: info for info in self.files}
        if len(self._file.infolist()) > MOST_MEMBERS:
            raise Refusal(TOO_MANY_PAGES, f"more than {MOST_MEMBERS:,} members")

    def check_sizes(self, endings: tuple[str, ...]) -> None:
        """Refuse members with these endings that unpack to too much, for a library that unpacks them by itself."""
        for info in self.files:
            if info.filename.lower().endswith(endings):
                self._check_size(info)

    def _check_size(self, info: zipfile.ZipInfo) -> None:
        """Count the declared size of a member, which is true or larger: no more is unpacked."""
        self._budget.take_bytes(info.file_size)
        if info.file_size > SMALL and info.file_size > LARGEST_RATIO * max(1, info.compress_size):
            ratio = info.file_size // max(1, info.compress_size)
            raise Refusal(UNPACKS_TOO_LARGE, f"{info.filename} becomes {ratio:,} times as large")

    def __contains__(self, name: str) -> bool:
        """Whether there is a member."""
        return name in self._members

    def read(self, name: str) -> bytes:
        """Unpack the member of a name in memory; the last one, as other programs do."""
        info = self._members.get(name)
        if info is None:
            raise Refusal(DAMAGED, f"it has no {name}")
        return self.read_file(info)

    def read_file(self, info: zipfile.ZipInfo) -> bytes:
        """Unpack a member in memory."""
        if info.flag_bits & 1:
            raise Refusal(ENCRYPTED, info.filename)
        self._check_size(info)
        try:
            with self._file.open(info) as member:
                return member.read(info.file_size)
        except RuntimeError as error:  # encrypted, in zipfile's words
            raise Refusal(ENCRYPTED, str(error)) from error
        except ERRORS as error:
            raise Refusal(DAMAGED, f"{info.filename}: {error}") from error
