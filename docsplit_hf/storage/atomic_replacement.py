"""Replace the files of a folder all together or not at all, even if the process is killed; lock a folder or a file.

A save writes its files to ``.saving`` in the folder, then renames this to ``.saved``. From then on, these files are the
valid ones, and docsplit_hf reads them there. They are linked to their places, and ``.saved`` is deleted.
Reading changes nothing: what a killed save has left is put in place by the next save, or by ``finish_save``.
Readers beside a writer notice a save by the state of the folder (``FolderState``), and read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from .inside_folder import InsideFolder, UnsafeFolderError, open_plain

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

STAGING = ".saving"  # in the folder itself, so that its files can be moved by renaming
SAVED = ".saved"
# Each save of a classifier, an encoder or a datastore replaces one of these files, and puts it in place last.
STATE_FILES = ("datastore/manifest.json", "manifest.json", "adapter_config.json", "config.json")
# The files that a model is loaded from. The next model may have others, so those left over are deleted.
MODEL_FILES = re.compile(
    r"(adapter_)?model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?|(adapter_)?config\.json|modules\.json"
)
TOKENIZER_FILES = re.compile(
    r"(tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|vocab\.(txt|bpe)|merges\.txt|"
    r"(tokenizer|spiece|sentencepiece\.bpe)\.model"
)

MOST_TRIES = 20  # to read the files of one save on systems without locks

_thread_state = threading.local()


@contextlib.contextmanager
def replaced_at_once(
    folder: str | Path, obsolete: Callable[[Path], Iterable[str]] = lambda folder: ()
) -> Iterator[Path]:
    """Yield an empty folder to write to; when the block ends, its files replace those in ``folder`` together.

    Other files stay, except those of an earlier model, and those that ``obsolete`` returns.

    Args:
        folder: The folder; it is made if it does not exist.
        obsolete: Returns the names of old files to delete, given the folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with save_lock(folder), InsideFolder.opened(folder) as inside:
        _finish(inside)
        with staged(inside) as staging:
            yield staging.path
            names = list(staging.files())
            if not names:
                raise UnsafeFolderError(f"{staging.path} was replaced while it was written to: nothing is saved.")
            others = sorted({*obsolete(folder)} - {*names})
            _refuse_folders(inside, [*names, *_files_of_earlier_model(inside, names), *others])
            flush_files(staging, names)
            # From here on, the new files are the valid ones.
            os.rename(STAGING, SAVED, src_dir_fd=inside.descriptor, dst_dir_fd=inside.descriptor)
            inside.flush()
            _put_in_place(inside)
            delete_files(inside, others)


def valid_folder(folder: str | Path) -> Path:
    """The folder with the valid files: ``.saved`` while a save puts its files in place, or was killed; else itself."""
    folder = Path(folder)
    saved = folder / SAVED
    return saved if saved.is_dir() and not saved.is_symlink() else folder


class FolderState(NamedTuple):
    """The state of a folder between two saves: where its valid files are, and inode, size and times of some of them."""

    place: Path
    files: tuple[tuple[int, ...] | None, ...]  # of SAVED and STATE_FILES; None: no such file

    @classmethod
    def of(cls, folder: Path) -> FolderState:
        """The state of a folder; what is read between two equal states is of one save."""
        while True:
            before = _identity(folder / SAVED)
            place = valid_folder(folder)
            files = tuple(_identity(folder / name) for name in STATE_FILES)
            if _identity(folder / SAVED) == before:
                return cls(place, (before, *files))


def read_one_save(
    folder: str | Path, read: Callable[[str | Path], Result], hold: bool = False
) -> tuple[Result, FolderState | None]:
    """Call ``read`` with the folder of the valid files, so that all files that it reads come from the same save.

    If another process saves in the meantime, ``read`` is called again while saves have to wait.

    Args:
        folder: The folder, or a name on the Hub.
        read: Reads a folder.
        hold: Whether saves have to wait from the beginning.

    Returns:
        The result of ``read``, and the folder's state; None for a name on the Hub.
    """
    if not Path(folder).is_dir():
        return read(folder), None
    folder = Path(folder)
    for number in range(MOST_TRIES):
        with save_lock(folder) if hold or number > 0 else contextlib.nullcontext():
            state = FolderState.of(folder)
            try:
                result = read(state.place)
            except Exception:  # a mixture of old and new files can cause any kind of error
                if FolderState.of(folder) == state:
                    raise
            else:
                if FolderState.of(folder) == state:
                    return result, state
        logger.info("Another process saved to %s while it was read: it is read again.", folder)
    raise OSError(f"{folder} was saved to during each of {MOST_TRIES} tries to read it: load it when no process saves.")


def _identity(path: Path) -> tuple[int, ...] | None:
    """Inode, size and times of a file."""
    # The content would not do: two saves may restore the first one's content, with the second one's read in between.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(path)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None


def finish_save(folder: str | Path) -> None:
    """Put the files of a save in place that was killed meanwhile; docsplit_hf reads them without this call.

    Programs without docsplit_hf need it, such as ``AutoModel``. The next save does the same.

    Args:
        folder: The folder of a classifier or an encoder.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If the files in it are links.
    """
    folder = Path(folder)
    with save_lock(folder), InsideFolder.opened(folder) as inside:
        _finish(inside)


@contextlib.contextmanager
def staged(inside: InsideFolder) -> Iterator[InsideFolder]:
    """Yield an empty folder inside a folder, which is deleted at the end; one that a killed save has left is, too."""
    inside.discard(STAGING)
    with inside.subfolder(STAGING, make=True) as staging:
        try:
            yield staging
        finally:
            inside.discard(STAGING)


def move_files(source: InsideFolder, target: InsideFolder, names: Iterable[str]) -> None:
    """Move files that are on the disk into a folder, those by which readers notice a save at the end."""
    for name in sorted(names, key=lambda name: (STATE_FILES.index(name) if name in STATE_FILES else -1, name)):
        with source.parent_of(name) as (old_parent, basename), target.parent_of(name, make=True) as (parent, _):
            old_parent.move_to(parent, basename, basename)
            parent.flush()


def delete_files(inside: InsideFolder, names: Iterable[str]) -> None:
    """Delete files of a folder that may be gone already; a link on the way is refused."""
    for name in names:
        with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (parent, basename):
            parent.remove(basename)


@contextlib.contextmanager
def save_lock(folder: Path) -> Iterator[None]:
    """Hold a folder's save lock, so that other saves wait; a thread may enter the context again for the same folder."""
    if not hasattr(_thread_state, "folders"):
        _thread_state.folders = set()
    status = os.stat(folder)
    key = (status.st_dev, status.st_ino)
    if key in _thread_state.folders:
        yield
        return
    with locked(folder):
        _thread_state.folders.add(key)
        try:
            yield
        finally:
            _thread_state.folders.discard(key)


@contextlib.contextmanager
def locked(path: Path, refusal: str | None = None) -> Iterator[None]:
    """Lock a folder, or a file, which is made if it does not exist; where the disk has no locks, a warning is logged.

    With a ``refusal``, raises ``ValueError`` with this sentence if another process has the lock, or has just deleted
    the file; otherwise waits.
    """
    descriptor = os.open(path, os.O_RDONLY) if path.is_dir() else open_or_make(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if refusal is None else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise ValueError(refusal) from error
        except OSError as error:
            logger.warning("%s cannot be locked (%s): let only one process write there at a time.", path, error)
        if refusal is not None and os.fstat(descriptor).st_nlink == 0:
            raise ValueError(refusal)
        yield
    finally:
        os.close(descriptor)


def open_or_make(path: Path) -> int:
    """Open a plain file for reading and writing, and make it if it does not exist; a link is refused."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return open_plain(path, os.O_RDWR)
        with contextlib.suppress(FileExistsError):
            return open_plain(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)


def model_files(folder: Path) -> list[str]:
    """The names of the files in a folder from which a model is loaded: weights, configuration, modules."""
    return sorted(path.name for path in folder.glob("*") if MODEL_FILES.fullmatch(path.name))


def apply_umask_to_weights(folder: str | Path) -> None:
    """Set the permissions of weights in a folder by the umask: safetensors makes files that only their owner reads."""
    for file in Path(folder).glob("*.safetensors"):
        descriptor = open_plain(file, os.O_RDONLY)
        try:
            _apply_umask(descriptor)
        finally:
            os.close(descriptor)


def flush(path: Path) -> None:
    """Force a file, or a folder's list of names, onto the disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _finish(inside: InsideFolder) -> None:
    """Put the files of a killed save in place, or delete them if they are incomplete."""
    if inside.exists(SAVED):
        logger.warning("A save to %s was interrupted: its files are put in place now.", inside.path)
        _put_in_place(inside)
    inside.discard(STAGING)


def _put_in_place(inside: InsideFolder) -> None:
    """Link the files in ``.saved`` to their places; delete those of an earlier model, and ``.saved``."""
    with inside.subfolder(SAVED) as saved, staged(inside) as staging:
        names = list(saved.files())
        old_names = _files_of_earlier_model(inside, names)
        _refuse_folders(inside, [*names, *old_names])
        for name in names:
            with saved.parent_of(name) as (parent, basename), staging.parent_of(name, make=True) as (links, _):
                parent.link_to(links, basename)
        move_files(staging, inside, names)
        delete_files(inside, old_names)
    # Readers must not find a part of it under its name.
    os.rename(SAVED, STAGING, src_dir_fd=inside.descriptor, dst_dir_fd=inside.descriptor)
    inside.discard(STAGING)


def _refuse_folders(inside: InsideFolder, names: Iterable[str]) -> None:
    """Refuse names of files that are folders, or behind a link."""
    for name in names:
        with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (parent, basename):
            status = parent.status(basename)
            if status is not None and stat.S_ISDIR(status.st_mode):
                raise UnsafeFolderError(
                    f"{inside.path / name} is a folder, and a save has a file of that name. Delete or rename this "
                    "folder."
                )


def _files_of_earlier_model(inside: InsideFolder, names: list[str]) -> list[str]:
    """The names of files from which the earlier model or tokenizer was loaded, and that the new one does not have."""
    patterns = [pattern for pattern in (MODEL_FILES, TOKENIZER_FILES) if any(map(pattern.fullmatch, names))]
    there = set(inside.names()) - set(names)
    return [name for name in there if any(pattern.fullmatch(name) for pattern in patterns)]


def flush_files(folder: InsideFolder, names: Iterable[str]) -> None:
    """Force new files onto the disk; weights get the permissions of the umask."""
    for name in names:
        with folder.parent_of(name) as (parent, basename):
            descriptor = parent.open_file(basename, os.O_RDWR)
            try:
                if name.endswith(".safetensors"):
                    _apply_umask(descriptor)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            parent.flush()


def _apply_umask(descriptor: int) -> None:
    """Give a file the permissions that the umask allows."""
    mask = os.umask(0)  # the umask can only be read by setting it
    os.umask(mask)
    os.fchmod(descriptor, 0o666 & ~mask)
