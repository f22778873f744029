"""Replace the files of a folder all together or not at all, even if the process is killed; lock a folder or a file.

A folder may come from a stranger. Therefore an interrupted save is finished automatically only if this user began it on
this machine, which a signature in ``.saving`` proves, and no save follows a link or a name out of the folder.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .inside_folder import NO_LINK, InsideFolder, UnsafeFolderError, check_name, open_plain
from .signed_by_user import is_signed, sign

logger = logging.getLogger(__name__)

STAGING = ".saving"  # in the folder itself, so that its files can be moved by renaming
JOURNAL = "journal.json"  # written last: once it exists, the new files are complete
MARK = ".mark"  # written first: signed by the user who saves
OWN_FILES = (JOURNAL, f"{JOURNAL}.tmp", MARK)  # files in STAGING that belong to the save itself
LARGEST_JOURNAL = 2**24  # bytes
# The files that a model is loaded from. The next model may have others, so those left over are deleted.
MODEL_FILES = re.compile(
    r"(adapter_)?model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?|(adapter_)?config\.json|modules\.json"
)

_thread_state = threading.local()


class UnfinishedSaveError(ValueError):
    """A folder holds a save that was interrupted while it moved its files, and that this user did not begin."""


@dataclass(frozen=True)
class Journal:
    """The steps that finish a save: files to move out of ``.saving``, in order, then files to delete."""

    move: list[str]
    delete: list[str]
    signature: str  # of the user who saves; "" if unsigned


@contextlib.contextmanager
def replaced_at_once(
    folder: str | Path,
    last: str,
    stale: Callable[[Path], Iterable[str]] = lambda folder: (),
    may_be_link: bool = True,
) -> Iterator[Path]:
    """Yield an empty folder to write to; when the block ends, its files replace those in ``folder`` together.

    Other files stay, except those that ``stale`` returns. A journal lists the files to move, ``last`` at the end, and
    those to delete. A process killed before the journal is written leaves the old files; killed later, it leaves a save
    that ``recover_own_save`` completes.

    Args:
        folder: The folder; it is made if it does not exist.
        last: The file to move last, by which readers notice the save.
        stale: Returns the names of old files to delete, given the folder.
        may_be_link: True for a folder that the user named, False for one below it, which others may have made.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), InsideFolder.opened(folder, may_be_link) as inside:
        _move_files_if_journaled(inside)
        _discard(inside)
        inside.make_folder(STAGING)
        try:
            with inside.subfolder(STAGING) as staging:
                _write(staging, MARK, sign("begun", *_identity(inside, staging)))
                yield folder / STAGING
                _check_same(folder / STAGING, staging)
                _write_journal(inside, staging, last, stale(folder))
        except BaseException:  # on a keyboard interrupt too: an incomplete set of files is useless
            with contextlib.suppress(UnsafeFolderError):  # a link has taken its place
                _discard(inside, warn=False)
            raise
        _move_files(inside)


def recover_own_save(folder: str | Path) -> bool:
    """Finish an interrupted save of this user, or delete its incomplete files; call it before reading a folder.

    ``finish_save``, which users call, does the same whoever began the save.

    Returns whether a save was under way: files read before this call may be older than those read after it. A save that
    this user did not begin on this machine is left as it is; if it has begun to move its files, an error is raised.
    """
    folder = Path(folder)
    if not os.path.lexists(folder / STAGING) or _holds_save_lock(folder):
        return False
    try:
        # Wait only for a save that is moving its files: until it begins to, the old files are complete.
        with locked(folder, wait=is_moving_files(folder)) as is_locked:
            _recover_own_save_in(folder, is_locked)
    except BlockingIOError:
        logger.info("Another process is saving to %s: its old files are read.", folder)
    return True


@contextlib.contextmanager
def save_lock(folder: Path) -> Iterator[bool]:
    """Hold a folder's save lock: other saves wait until the context ends. An interrupted save is finished first.

    Yields whether the folder is locked; some systems have no locks. A thread may enter the context again for the same
    folder.
    """
    if _holds_save_lock(folder):
        yield True
        return
    with locked(folder) as is_locked:
        _recover_own_save_in(folder, is_locked)
        if is_locked:
            _save_locks_held().add(_inode(folder))
        try:
            yield is_locked
        finally:
            _save_locks_held().discard(_inode(folder))


def is_moving_files(folder: Path) -> bool:
    """Whether a save is moving its files into a folder, or was interrupted while doing so."""
    return os.path.lexists(folder / STAGING / JOURNAL)


def finish_save(folder: str | Path) -> None:
    """Finish a save that was interrupted while it moved its files, whoever began it.

    Loading finishes the user's own saves on the same machine without this call. For all others, as in a copied folder,
    loading raises an error that names this function. Nothing outside the folder is changed. Call it only if you trust
    the author of the folder.

    Args:
        folder: The folder of a classifier, an encoder or a datastore.

    Raises:
        FileNotFoundError: If there is no such folder, or a file of the save is missing.
        ValueError: If the save names files outside the folder, or has links.
    """
    folder = Path(folder)
    for place in (folder, folder / "datastore"):  # a datastore may have been saved by itself
        if place == folder or os.path.lexists(place / STAGING):
            with locked(place), InsideFolder.opened(place, may_be_link=place == folder) as inside:
                if _move_files_if_journaled(inside, trusted=True):
                    _discard(inside)


def _recover_own_save_in(folder: Path, is_locked: bool) -> None:
    """Do the same as ``recover_own_save``, in a folder that the caller has locked, if the system has locks."""
    with InsideFolder.opened(folder) as inside:
        if not _move_files_if_journaled(inside):
            return
        if not _was_begun_by_user(inside):
            logger.warning("%s holds an incomplete save that this user did not begin: it is left there.", folder)
        elif is_locked and os.access(folder, os.W_OK):
            _discard(inside)
        else:
            logger.warning("A save to %s is incomplete. The files from before it are read.", folder)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Lock a folder, or a file, which is made if it does not exist; yields whether it is locked.

    ``wait=False`` raises ``BlockingIOError`` if another process has the lock, or has just deleted the file.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield False
        return
    if path.is_dir():
        descriptor = os.open(path, os.O_RDONLY)
    else:
        descriptor = open_or_make(path)
    is_locked = True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError as error:
            is_locked = False
            logger.warning("%s cannot be locked (%s): let only one process write there at a time.", path, error)
        if not wait and os.fstat(descriptor).st_nlink == 0:
            raise BlockingIOError(f"{path} was deleted by the process that had locked it")
        yield is_locked
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
            _apply_umask(file, descriptor)
        finally:
            os.close(descriptor)


def flush(path: Path) -> None:
    """Force a file, or a folder's list of names, onto the disk, so that it survives a power cut."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY) if path.is_dir() else os.open(path, os.O_RDWR | NO_LINK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _holds_save_lock(folder: Path) -> bool:
    """Whether this thread holds the folder's save lock."""
    return bool(_save_locks_held()) and _inode(folder) in _save_locks_held()


def _save_locks_held() -> set[tuple[int, int]]:
    """Device and inode of the folders whose save locks this thread holds."""
    if not hasattr(_thread_state, "folders"):
        _thread_state.folders = set()
    return _thread_state.folders


def _inode(folder: Path) -> tuple[int, int]:
    """Device and inode of a folder."""
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _move_files_if_journaled(inside: InsideFolder, trusted: bool = False) -> bool:
    """If the journal exists, move the files. Returns True if there is staging without a journal.

    ``trusted``: move them without a valid signature, because the user asked for it.
    """
    if inside.status(STAGING) is None:
        return False
    with inside.subfolder(STAGING) as staging:
        if staging.file_status(JOURNAL) is None:
            return True
        journal = _read_journal(staging)
        is_signed_here = is_signed(journal.signature, *_signed_text(inside, staging, journal))
        if not trusted and not (is_signed_here and _is_owned_by_user(inside, staging)):
            raise UnfinishedSaveError(
                f"{inside.path} holds a save that was interrupted while it moved its files, and that this user did not "
                "begin on this machine: what would be read may be half old and half new. If you know where the folder "
                f"comes from, docsplit_hf.finish_save({str(inside.path)!r}) finishes the save; else do not use it."
            )
    _move_files(inside)
    return False


def _move_files(inside: InsideFolder) -> None:
    """Move and delete the files that the journal lists; some may have been moved already."""
    with inside.subfolder(STAGING) as staging:
        journal = _read_journal(staging)
        for name in journal.move:
            _check_move(inside, staging, name)
        for name in journal.delete:
            _check_delete(inside, name)
        for name in journal.move:
            # Files that a killed process has moved already are missing here.
            with (
                contextlib.suppress(FileNotFoundError),
                staging.parent_of(name) as (source, basename),
                inside.parent_of(name, make=True) as (target, _),
            ):
                source.move_to(target, basename, basename)
        for name in journal.move:
            with inside.parent_of(name) as (target, _):
                target.flush()
        for name in journal.delete:
            with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (parent, basename):
                parent.remove(basename)
    _discard(inside, warn=False)


def _check_move(inside: InsideFolder, staging: InsideFolder, name: str) -> None:
    """Refuse a file that is a link, is missing from both staging and target, or whose target is a folder.

    All files are checked before the first one is moved.
    """
    target_status = None
    source_status = None
    with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (target, basename):
        target_status = target.status(basename)
    with contextlib.suppress(FileNotFoundError), staging.parent_of(name) as (source, basename):
        source_status = source.file_status(basename)
    if source_status is None and target_status is None:
        raise FileNotFoundError(
            f"{inside.path} has a save that cannot be finished: {name} is missing. Copy the folder again."
        )
    if target_status is not None and stat.S_ISDIR(target_status.st_mode):
        raise UnsafeFolderError(
            f"{inside.path / name} is a folder, and a save has a file of that name. Delete or rename this folder."
        )


def _check_delete(inside: InsideFolder, name: str) -> None:
    """Refuse to delete a folder, or a file behind a link; checked before anything is moved or deleted."""
    with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (parent, basename):
        status = parent.status(basename)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise UnsafeFolderError(f"{inside.path / name} is a folder, and a save would delete it as a file.")


def _discard(inside: InsideFolder, warn: bool = True) -> None:
    """Delete ``.saving``: first the saved files, then the journal, then the mark, which shows who began the save."""
    if inside.status(STAGING) is None:
        return
    if warn:
        message = "A save to %s was interrupted before it was complete: the old files are kept."
        logger.warning(message, inside.path)
    with inside.subfolder(STAGING) as staging:
        for name in sorted(staging.names(), key=lambda name: (name == MARK, name == JOURNAL)):
            _delete(staging, name)
    with contextlib.suppress(FileNotFoundError):  # without locks, another process may be faster
        inside.remove_folder(STAGING)


def _delete(folder: InsideFolder, name: str) -> None:
    """Delete a file or a folder, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        status = folder.status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            folder.remove_folder(name)
        else:
            folder.remove(name)


def _write_journal(inside: InsideFolder, staging: InsideFolder, last: str, stale: Iterable[str]) -> None:
    """Write the journal, which completes a save, after all files are on the disk and are known to be movable."""
    files = [name for name in staging.files() if name not in OWN_FILES]
    new = sorted(files, key=lambda name: (name == last, name))
    journal = Journal(move=new, delete=sorted(set(stale) - set(new)), signature="")
    _check_names(inside.path, journal)
    for name in journal.delete:
        _check_delete(inside, name)
    for name in new:
        _check_move(inside, staging, name)
        with staging.parent_of(name) as (folder, file):
            _flush_file(folder, file)
            folder.flush()
    signature = sign(*_signed_text(inside, staging, journal))
    content = {"move": journal.move, "delete": journal.delete, "signature": signature}
    _write(staging, f"{JOURNAL}.tmp", json.dumps(content))
    staging.flush()
    staging.move_to(staging, f"{JOURNAL}.tmp", JOURNAL)
    staging.flush()


def _read_journal(staging: InsideFolder) -> Journal:
    """Read and check the journal of a save."""
    path = staging.path / JOURNAL
    advice = f"Delete {staging.path}; the files beside it may be half old and half new."
    with open(staging.open_file(JOURNAL, os.O_RDONLY), "rb") as file:
        content = file.read(LARGEST_JOURNAL + 1)
    try:
        if len(content) > LARGEST_JOURNAL:
            raise ValueError("it is too long")
        read = json.loads(content)
        journal = Journal(move=read["move"], delete=read["delete"], signature=read.get("signature", ""))
        if not isinstance(journal.move, list) or not isinstance(journal.delete, list):
            raise TypeError("move and delete must be lists")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnfinishedSaveError(
            f"{path} is not a journal of a save ({type(error).__name__}: {error}). {advice}"
        ) from error
    _check_names(path, journal)
    return journal


def _check_names(path: Path, journal: Journal) -> None:
    """Refuse names that lead out of the folder or belong to the save itself.

    Also refuse duplicates, and a file with a path below another file.
    """
    advice = f"If the folder comes from others, do not use it; else delete {STAGING} in it, and save again."
    for name in (*journal.move, *journal.delete):
        try:
            check_name(name)
        except UnsafeFolderError as error:
            raise UnsafeFolderError(f"{path} names a file which is not in the folder: {error} {advice}") from error
        if name.split("/")[0].casefold() == STAGING:
            raise UnsafeFolderError(f"{path} names {name!r}, which belongs to the save itself. {advice}")
    for name in journal.move:
        if name.casefold() in OWN_FILES:
            raise UnsafeFolderError(f"{path} names {name!r}, which belongs to the save itself. {advice}")
    moved = set(journal.move)
    parents = {parent.as_posix() for name in moved for parent in Path(name).parents}
    if len(moved) < len(journal.move) or moved & parents or moved & set(journal.delete):
        raise UnsafeFolderError(
            f"{path} lists a path twice, or uses one file as the parent folder of another. {advice}"
        )


def _identity(inside: InsideFolder, staging: InsideFolder) -> list[int]:
    """The inodes of a folder and its ``.saving``, which a copy, an archive or a clone does not share."""
    # Device numbers are left out: they may change when the machine restarts.
    return [inside.own_status().st_ino, staging.own_status().st_ino]


def _signed_text(inside: InsideFolder, staging: InsideFolder, journal: Journal) -> list[object]:
    """The content that the signature in a journal covers."""
    return ["complete", *_identity(inside, staging), journal.move, journal.delete]


def _was_begun_by_user(inside: InsideFolder) -> bool:
    """Whether this user began the save in a folder on this machine; also True if ``.saving`` has no files yet."""
    with inside.subfolder(STAGING) as staging:
        if set(staging.names()) <= {MARK}:
            return True
        if staging.file_status(MARK) is None:
            return False
        with open(staging.open_file(MARK, os.O_RDONLY), encoding="ascii", errors="replace") as file:
            mark = file.read(1000)
        return is_signed(mark, "begun", *_identity(inside, staging)) and _is_owned_by_user(inside, staging)


def _is_owned_by_user(*folders: InsideFolder) -> bool:
    """Whether this user owns the folders; True on systems without owners."""
    return not hasattr(os, "geteuid") or {folder.own_status().st_uid for folder in folders} == {os.geteuid()}


def _check_same(path: Path, opened: InsideFolder) -> None:
    """Refuse a folder that was replaced by another one, or by a link, while files were written to its path."""
    now = os.stat(path, follow_symlinks=False)
    before = opened.own_status()
    if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
        raise UnsafeFolderError(f"{path} was replaced by something else while it was written to: nothing is saved.")


def _write(folder: InsideFolder, name: str, content: str) -> None:
    """Write a new ASCII file through to the disk."""
    descriptor = folder.open_file(name, os.O_WRONLY | os.O_CREAT)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _flush_file(folder: InsideFolder, name: str) -> None:
    """Force a new file onto the disk; weights get the permissions of the umask."""
    descriptor = folder.open_file(name, os.O_RDWR)
    try:
        if name.endswith(".safetensors"):
            _apply_umask(folder.path / name, descriptor)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _apply_umask(path: Path, descriptor: int) -> None:
    """Give a file the permissions that the umask allows."""
    mask = os.umask(0)  # the umask can only be read by setting it
    os.umask(mask)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o666 & ~mask)
    else:
        path.chmod(0o666 & ~mask)
