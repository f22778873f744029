"""What describes a data set, its rows, and a clone to read them from."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")
GZIP = b"\x1f\x8b"


def decode(content: bytes, encoding: str | None = None) -> str:
    """The text of a file's content; without an encoding, in the first of ``ENCODINGS`` that fits."""
    if encoding is not None:
        return content.decode(encoding)
    for candidate in ENCODINGS[:-1]:
        try:
            return content.decode(candidate)
        except UnicodeDecodeError:
            continue
    return content.decode(ENCODINGS[-1])  # which fits any bytes


class Row(NamedTuple):
    """A labeled text; rows of one group are versions of one text, or belong together otherwise."""

    text: str
    label: str
    text_pair: str | None = None
    group: str | None = None


class Splits(NamedTuple):
    """Rows for training and testing; without ``test``, groups of rows are held out at random."""

    train: list[Row]
    test: list[Row] | None = None


class Clone(NamedTuple):
    """A git repository at one commit; it needs no working tree."""

    folder: Path
    commit: str

    def bytes_of(self, path: str) -> bytes:
        """The content of a file, unpacked: "file.gz", or "archive.zip!file"."""
        if "!" in path:
            parts = path.split("!")
            return self.archive(parts[0]).read(parts[1])
        content = self._git("show", f"{self.commit}:{path}")
        return gzip.decompress(content) if content.startswith(GZIP) else content

    def archive(self, path: str) -> zipfile.ZipFile:
        """An archive of the repository."""
        return zipfile.ZipFile(io.BytesIO(self._git("show", f"{self.commit}:{path}")))

    def text_of(self, path: str, encoding: str | None = None) -> str:
        """The text of a file; without an encoding, in the first of ``ENCODINGS`` that fits."""
        return decode(self.bytes_of(path), encoding)

    def lines_of(self, path: str, encoding: str | None = None) -> list[str]:
        """The lines of a file, without the empty line at its end."""
        return self.text_of(path, encoding).replace("\r\n", "\n").removesuffix("\n").split("\n")

    def files(self, folder: str) -> dict[str, bytes]:
        """The contents of all files in a folder of the repository, by their paths in order."""
        content = self._git("archive", "--format=tar", self.commit, "--", folder)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = sorted((member for member in archive if member.isfile()), key=lambda member: member.name)
            return {member.name: archive.extractfile(member).read() for member in members}

    def paths(self, folder: str = "") -> list[str]:
        """The paths of all files in a folder of the repository, in order."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", self.commit, "--", folder or ".")
        return sorted(path for path in listed.decode().split("\0") if path)

    def _git(self, *arguments: str) -> bytes:
        """The output of a git command in the clone."""
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout


class DataSet(NamedTuple):
    """Where a data set is from, what it is, and how it is read."""

    name: str
    kind: str
    language: str
    repository: str
    commit: str
    path: str
    license: str
    read: Callable[[Clone], Splits]
    train_rows: int = 6000
    test_rows: int = 2000
    note: str = ""
    prepared_as: str = ""  # the folder of a prepared set, if its name is another

    @property
    def kinds(self) -> list[str]:
        """All kinds of the set: "topics" or "no topics", "versions", "many classes", "tree"."""
        return self.kind.split(", ")
