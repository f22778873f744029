"""Read and write files inside a folder that may come from a stranger: names and links that lead out are refused."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self


class UnsafeFolderError(ValueError):
    """A folder holds a link, or a name was given, that leads out of it."""


def is_plain(name: object) -> bool:
    """Whether a name is that of a file below a folder, and could be nothing else on any system."""
    if not isinstance(name, str):
        return False
    # Some systems treat variants of a letter as equal, and ignore invisible letters.
    for part in unicodedata.normalize("NFKC", name).split("/"):
        has_invisible = any(unicodedata.category(letter).startswith("C") for letter in part)
        has_separator = "\\" in part or ":" in part
        if part in ("", ".", "..") or has_invisible or has_separator or part.endswith((".", " ")):
            return False
    return True


class InsideFolder:
    """An open folder. Its files are opened one folder after another, and never through a link.

    It stays the same folder, even if a link takes its place. It may be behind a link itself, if the user named that.
    ``descriptor``: of the open folder, for functions of ``os`` with ``dir_fd``.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path, may_be_link: bool = True, parent: int | None = None) -> Iterator[Self]:
        """Open the folder at a path, or of this name in the open folder ``parent``, within the context."""
        flags = os.O_RDONLY | os.O_DIRECTORY | (0 if may_be_link else os.O_NOFOLLOW)
        try:
            descriptor = os.open(path if parent is None else path.name, flags, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise UnsafeFolderError(
                    f"{path} is a link or a file where a folder should be: delete it. A link is not followed, as it "
                    "may lead elsewhere."
                ) from error
            raise
        try:
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def subfolder(self, name: str, make: bool = False) -> Iterator[Self]:
        """Open a subfolder within the context; ``make``: make it if it does not exist."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.descriptor)
        with self.opened(self.path / name, may_be_link=False, parent=self.descriptor) as folder:
            yield folder

    @contextlib.contextmanager
    def parent_of(self, name: str, make: bool = False) -> Iterator[tuple[Self, str]]:
        """Open the folder of a file within the context; yields the folder and the last part of the file's name."""
        if not is_plain(name):
            raise UnsafeFolderError(f"{name!r} is not the plain name of a file below a folder.")
        *folders, last = name.split("/")
        with contextlib.ExitStack() as opened:
            parent = self
            for folder in folders:
                parent = opened.enter_context(parent.subfolder(folder, make))
            yield parent, last

    def status(self, name: str) -> os.stat_result | None:
        """The ``lstat`` of an entry of this folder; None if there is no such entry."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        """Whether there is an entry of a name, which may have folders in it."""
        try:
            with self.parent_of(name) as (parent, basename):
                return parent.status(basename) is not None
        except (FileNotFoundError, UnsafeFolderError):  # a link, or a file, where a folder should be
            return False

    def names(self) -> list[str]:
        """The names of all entries of this folder."""
        return sorted(os.listdir(self.descriptor))

    def files(self) -> Iterator[str]:
        """The names of all files, those in subfolders included; links and other entries are refused."""
        for name in self.names():
            status = self.status(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                with self.subfolder(name) as folder:
                    yield from (f"{name}/{file}" for file in folder.files())
            elif status is not None:
                if not stat.S_ISREG(status.st_mode):
                    raise _refusal(self.path / name)
                yield name

    def sha256(self, name: str) -> str:
        """The SHA-256 of a plain file, 64 hexadecimal digits."""
        with self.parent_of(name) as (parent, basename), open(parent.open_file(basename, os.O_RDONLY), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def open_file(self, name: str, flags: int) -> int:
        """Open a plain file in this folder, or make a new one with ``O_CREAT``; returns its descriptor."""
        new = os.O_EXCL if flags & os.O_CREAT else 0
        return open_plain(self.path / name, flags | new, name, self.descriptor)

    def move_to(self, other: InsideFolder, name: str, new_name: str) -> None:
        """Move a file into another folder; a file or link of that name is replaced, and not followed."""
        os.replace(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=other.descriptor)

    def link_to(self, other: InsideFolder, name: str) -> None:
        """Give a file a second name in another folder; where there are no hard links, copy it."""
        try:
            os.link(
                name,
                name,
                src_dir_fd=self.descriptor,
                dst_dir_fd=other.descriptor,
                follow_symlinks=False,
            )
        except OSError:
            with (
                open(self.open_file(name, os.O_RDONLY), "rb") as source,
                open(other.open_file(name, os.O_WRONLY | os.O_CREAT), "wb") as target,
            ):
                shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())

    def remove(self, name: str) -> None:
        """Remove a file or a link; the target of a link stays."""
        os.unlink(name, dir_fd=self.descriptor)

    def discard(self, name: str) -> None:
        """Remove an entry, if it exists: a subfolder with its content, in which no link is followed, or another one."""
        with contextlib.suppress(FileNotFoundError):  # without locks, another process may be faster
            status = self.status(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                shutil.rmtree(name, dir_fd=self.descriptor)
            elif status is not None:
                self.remove(name)

    def flush(self) -> None:
        """Force the folder's list of names onto the disk."""
        os.fsync(self.descriptor)


def refuse_links(folder: Path, may_be_link: bool = False, below: bool = True) -> None:
    """Refuse a folder with links or hard links: writing to it could change files elsewhere.

    ``below``: check its subfolders too.
    """
    with InsideFolder.opened(folder, may_be_link) as inside:
        for name in inside.names():
            status = inside.status(name)
            if status is None:
                continue
            if not stat.S_ISDIR(status.st_mode):
                _check_plain(folder / name, status)
            elif below:
                refuse_links(folder / name)


def write_file(path: str | Path, content: str | bytes, errors: str = "strict") -> None:
    """Write a file, or replace it, completely or not at all; a link is replaced, and not followed."""
    path = Path(path)
    with temporary_file(path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", errors))
        os.replace(temporary, path)


@contextlib.contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """Make an empty file that the context writes to and renames; if it was not renamed, delete it at the end.

    A file or link of this name, which a killed process may have left, is deleted first.
    """
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def write_at_once(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder, which does not exist, completely or not at all; ``write`` makes it under a temporary path.

    If another process has made the folder in the meantime, that one stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        write(temporary)
        os.replace(temporary, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_plain(path: Path, flags: int, place: str | None = None, folder: int | None = None) -> int:
    """Open a plain file and return its descriptor; a link is refused, and so is a file with another hard link.

    ``place``: the file's name relative to ``folder``, the descriptor of an open folder.
    """
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe would wait for a process at its other end
    try:
        descriptor = os.open(place or path, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            raise _refusal(path) from error
        raise
    try:
        _check_plain(path, os.fstat(descriptor))
    except UnsafeFolderError:
        os.close(descriptor)
        raise
    return descriptor


def _check_plain(path: Path, status: os.stat_result) -> None:
    """Refuse an entry that is not a plain file with a single name."""
    # With two hard links, the file may also belong to another folder. A file that was just deleted has no name.
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise _refusal(path)


def _refusal(path: Path) -> UnsafeFolderError:
    """The error for an entry that is not a plain file."""
    return UnsafeFolderError(
        f"{path} is not a plain file: it is a link or a second name of another file, and using it could change a file "
        "elsewhere. Delete it, or choose another folder."
    )
