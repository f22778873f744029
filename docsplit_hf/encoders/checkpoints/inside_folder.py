"""Read and write files inside a folder that a stranger may have filled: no name and no link leads out of it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

# A folder that is open stays what it is, even if its place is taken by a link. Windows opens no folders.
HAS_DESCRIPTORS = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.rename, os.unlink, os.mkdir} <= os.supports_dir_fd
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class UnsafeFolderError(ValueError):
    """A folder has a link, or a name, that leads out of it."""


def check_name(name: object) -> str:
    """Refuse a name that is, on any system, not the plain name of a file below a folder."""
    if not isinstance(name, str):
        raise UnsafeFolderError(f"{name!r} is not the name of a file.")
    # Some systems take other forms of a letter for the same one, and skip invisible letters.
    for part in unicodedata.normalize("NFKC", name).split("/"):
        unseen = any(unicodedata.category(letter).startswith("C") for letter in part)
        if part in ("", ".", "..") or unseen or part.endswith((".", " ")) or any(sign in part for sign in "\\:"):
            raise UnsafeFolderError(f"{name!r} is not the plain name of a file below a folder.")
    return name


def is_plain(name: str) -> bool:
    """Whether ``check_name`` takes it."""
    try:
        check_name(name)
    except UnsafeFolderError:
        return False
    return True


class InsideFolder:
    """An open folder. Its files are opened one part of their name after another, and never through a link.

    The folder itself was named by the user, so it may be a link.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path, may_be_link: bool = True) -> Iterator[Self]:
        """The folder of a path."""
        if not may_be_link and not _is_folder(path.lstat()):
            raise _no_folder(path)
        descriptor = None
        if HAS_DESCRIPTORS:
            descriptor = _open_folder(path, path, None, 0 if may_be_link else NO_LINK)
        try:
            yield cls(path, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextlib.contextmanager
    def subfolder(self, name: str, make: bool = False) -> Iterator[Self]:
        """A folder in it; ``make``: it is made if it is not there."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._place(name), dir_fd=self._descriptor)
        status = self.status(name)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path / name))
        if not _is_folder(status):
            raise _no_folder(self.path / name)
        if self._descriptor is None:
            yield type(self)(self.path / name, None)
            return
        descriptor = _open_folder(self.path / name, name, self._descriptor, NO_LINK)
        try:
            yield type(self)(self.path / name, descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def parent_of(self, name: str, make: bool = False) -> Iterator[tuple[Self, str]]:
        """The folder that a file lies in, and the last part of the file's name."""
        *folders, last = check_name(name).split("/")
        with contextlib.ExitStack() as opened:
            parent = self
            for folder in folders:
                parent = opened.enter_context(parent.subfolder(folder, make))
            yield parent, last

    def status(self, name: str) -> os.stat_result | None:
        """The ``lstat`` of an entry of this folder; None if there is none."""
        try:
            return os.stat(self._place(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def own_status(self) -> os.stat_result:
        """The ``stat`` of the folder itself."""
        return os.stat(self.path if self._descriptor is None else self._descriptor)

    def file_status(self, name: str) -> os.stat_result | None:
        """The ``lstat`` of a plain file with one name; anything else is refused."""
        status = self.status(name)
        if status is not None:
            _check_plain(self.path / name, status)
        return status

    def names(self) -> list[str]:
        """The names of all entries of this folder."""
        return sorted(os.listdir(self.path if self._descriptor is None else self._descriptor))

    def files(self) -> Iterator[str]:
        """The names of all plain files, of subfolders too; refused if there is anything else."""
        for name in self.names():
            status = self.status(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                with self.subfolder(name) as folder:
                    yield from (f"{name}/{file}" for file in folder.files())
            elif status is not None:
                _check_plain(self.path / name, status)
                yield name

    def open_file(self, name: str, flags: int) -> int:
        """A descriptor of a plain file in this folder; with ``O_CREAT`` of a new one."""
        new = os.O_EXCL if flags & os.O_CREAT else 0
        return open_plain(self.path / name, flags | new, self._place(name), self._descriptor)

    def make_folder(self, name: str) -> None:
        """Make a folder in it; ``FileExistsError`` if there is anything of that name."""
        os.mkdir(self._place(name), dir_fd=self._descriptor)

    def move_to(self, other: InsideFolder, name: str, new_name: str) -> None:
        """Move a plain file into another folder, in place of a file there. A link there is replaced, not followed."""
        self.file_status(name)
        os.replace(
            self._place(name),
            other._place(new_name),
            src_dir_fd=self._descriptor,
            dst_dir_fd=other._descriptor,
        )

    def remove(self, name: str) -> None:
        """Remove a file, or a link without its target."""
        os.unlink(self._place(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it; links in it are removed, and not followed."""
        shutil.rmtree(self._place(name), dir_fd=self._descriptor)

    def flush(self) -> None:
        """Write the folder's list of names through to the disk."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def _place(self, name: str) -> str:
        return str(self.path / name) if self._descriptor is None else name


def refuse_links(folder: Path, may_be_link: bool = False, below: bool = True) -> None:
    """Refuse a folder with links, or with files of two names: writing there could change a file elsewhere.

    ``below``: check its subfolders, too.
    """
    with InsideFolder.opened(folder, may_be_link) as inside:
        for name in inside.names():
            status = inside.status(name)
            if status is None:
                continue
            if not _is_folder(status):
                _check_plain(folder / name, status)
            elif below:
                refuse_links(folder / name)


def write_file(path: str | Path, content: str | bytes, encoding: str = "utf-8", errors: str = "strict") -> None:
    """Write a file in place of the one that is there, whole or not at all; a link is replaced, and not followed."""
    path = Path(path)
    with temporary_file(path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode(encoding, errors))
        os.replace(temporary, path)


@contextlib.contextmanager
def temporary_file(path: Path) -> Iterator[Path]:
    """Make an empty file to write to and then rename; delete it at the end if it was not renamed.

    A file or a link of this name, such as a killed process leaves, is deleted first.
    """
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o666))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def write_at_once(folder: Path, write: Callable[[Path], object], name_of: Callable[[Path], str]) -> Path:
    """Have ``write`` write a file or a folder to a temporary path, and move it into ``folder``, whole or not at all.

    ``name_of`` makes the final name of the temporary path, whose content may be part of the name. Returns the final
    path. Another process may have put a folder of that name there first: that folder stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{uuid.uuid4().hex}.tmp"
    try:
        write(temporary)
        path = folder / name_of(temporary)
        try:
            os.replace(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
        return path
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def open_plain(path: Path, flags: int, place: str | None = None, folder: int | None = None) -> int:
    """A descriptor of a plain file that has no other name; a link is refused, and so is a file with two names.

    ``place``: its name below the descriptor of its ``folder``, if that is open.
    """
    waiting = getattr(os, "O_NONBLOCK", 0)  # not for the other end of a pipe
    if NO_LINK == 0 and path.is_symlink():
        raise _refusal(path)
    try:
        descriptor = os.open(place or path, flags | NO_LINK | waiting, 0o666, dir_fd=folder)
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


def _open_folder(path: Path, place: str | Path, parent: int | None, flags: int) -> int:
    try:
        return os.open(place, os.O_RDONLY | os.O_DIRECTORY | flags, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):  # it became a link a moment ago
            raise _no_folder(path) from error
        raise


def _is_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and not _is_reparse_point(status)


def _no_folder(path: Path) -> UnsafeFolderError:
    return UnsafeFolderError(
        f"{path} is a link or a file where a folder should be: delete it. A link is not followed, as it may lead "
        "elsewhere."
    )


def _check_plain(path: Path, status: os.stat_result) -> None:
    # A file with two names may be one of another folder. A file that was just deleted has none.
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or _is_reparse_point(status):
        raise _refusal(path)


def _is_reparse_point(status: os.stat_result) -> bool:
    """Whether it is a junction or another kind of link of Windows."""
    return bool(getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0))


def _refusal(path: Path) -> UnsafeFolderError:
    return UnsafeFolderError(
        f"{path} is not a plain file: it is a link or a second name of another file, and to use it could change a file "
        "elsewhere. Delete it, or choose another folder."
    )
