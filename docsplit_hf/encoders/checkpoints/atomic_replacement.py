"""Replace the files of a folder all together or not at all, even if the process is killed; lock a folder or a file.

A folder may come from a stranger. So an interrupted save is finished automatically only if this user made it on this
machine, which a signature in ``.saving`` proves, and no save follows a link or a name out of the folder.
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

STAGING = ".saving"  # in the folder itself, so that moving files out of it is renaming them
JOURNAL = "journal.json"  # written last: from then on the new files are complete
MARK = ".mark"  # written first: who saves here
OWN_FILES = (JOURNAL, f"{JOURNAL}.tmp", MARK)  # of the save itself, in STAGING
LARGEST_JOURNAL = 2**24  # bytes
# The files that a model is loaded from. A model saved in its place may have others: files left over are deleted.
MODEL_FILES = re.compile(
    r"(adapter_)?model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?|(adapter_)?config\.json|modules\.json"
)

_of_thread = threading.local()


class UnfinishedSaveError(ValueError):
    """A folder holds a save that was interrupted while it moved its files, and that this user did not begin."""


@dataclass(frozen=True)
class Journal:
    """The files to move out of ``.saving``, in this order, and those to delete then."""

    move: list[str]
    delete: list[str]
    signature: str


@contextlib.contextmanager
def replaced_at_once(
    folder: str | Path,
    last: str,
    stale: Callable[[Path], Iterable[str]] = lambda folder: (),
    may_be_link: bool = True,
) -> Iterator[Path]:
    """Yield an empty folder to write to; when the block ends, its files replace those in ``folder`` together.

    Other files stay, except those that ``stale`` names. A journal lists the files to move, ``last`` at the end, and to
    delete: a process killed before the journal is written leaves the old files; after it, ``finish_replacement`` goes
    on. ``may_be_link``: True for a folder that the user named, False for one below it, which others may have made.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), InsideFolder.opened(folder, may_be_link) as inside:
        _settle(inside)
        _discard(inside)
        inside.make_folder(STAGING)
        try:
            with inside.subfolder(STAGING) as staging:
                _write(staging, MARK, sign("begun", *_identity(inside, staging)))
                yield folder / STAGING
                _check_same(folder / STAGING, staging)
                _write_journal(inside, staging, last, stale(folder))
        except BaseException:  # a keyboard interrupt too: half of the files are of no use
            with contextlib.suppress(UnsafeFolderError):  # a link has taken its place
                _discard(inside, warn=False)
            raise
        _finish(inside)


def finish_replacement(folder: str | Path) -> bool:
    """Finish an interrupted save of this user, or delete its incomplete files; call it before a folder is read.

    Returns whether a save was under way, so that files read before may be older. A save that this user did not make
    here is left as it is, and raises an error if it began to move its files.
    """
    folder = Path(folder)
    if not os.path.lexists(folder / STAGING) or _is_held(folder):
        return False
    try:
        # A save that moves its files is waited for. One that has not begun to leaves the old files whole.
        with locked(folder, wait=moves_files(folder)) as is_alone:
            _tidy(folder, is_alone)
    except BlockingIOError:
        logger.info("Another process saves to %s: what was there before is read.", folder)
    return True


@contextlib.contextmanager
def held_still(folder: Path) -> Iterator[bool]:
    """Make all saves to a folder wait, and finish an interrupted one first; yields whether the system has locks.

    A thread may enter it again for the same folder.
    """
    if _is_held(folder):
        yield True
        return
    with locked(folder) as is_alone:
        _tidy(folder, is_alone)
        if is_alone:
            _folders_held().add(_inode(folder))
        try:
            yield is_alone
        finally:
            _folders_held().discard(_inode(folder))


def moves_files(folder: Path) -> bool:
    """Whether a save has begun to move its files to a folder, and has not ended."""
    return os.path.lexists(folder / STAGING / JOURNAL)


def finish_save(folder: str | Path) -> None:
    """Finish a save that was interrupted while it moved its files, whoever began it.

    Loading finishes a save of the same user on the same machine without this call. For others, as in a copy of a
    folder, loading raises an error that names it. Nothing outside the folder is changed; trust the folder's author.

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
                if _settle(inside, trusted=True):
                    _discard(inside)


def _tidy(folder: Path, is_alone: bool) -> None:
    """Finish a save to a folder that is locked, or delete what is not complete, if this user began it."""
    with InsideFolder.opened(folder) as inside:
        if not _settle(inside):
            return
        if not _is_own(inside):
            logger.warning("%s holds a save that is not complete, and not this user's: it is left there.", folder)
        elif is_alone and os.access(folder, os.W_OK):
            _discard(inside)
        else:
            logger.warning("A save to %s is not complete. What was there before is read.", folder)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Lock a folder, or a file, which is made if it does not exist; yields whether the system has locks.

    ``wait=False`` raises ``BlockingIOError`` if another process has the lock, or has just deleted the file.
    """
    try:
        import fcntl
    except ImportError:  # Windows: let only one process write there at a time
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
    """A descriptor of a plain file to read and write, which is made if it is not there; a link is refused."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return open_plain(path, os.O_RDWR)
        with contextlib.suppress(FileExistsError):
            return open_plain(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)


def model_files(folder: Path) -> list[str]:
    """The names of the files in a folder that a model is loaded by: weights, configuration, modules."""
    return sorted(path.name for path in folder.glob("*") if MODEL_FILES.fullmatch(path.name))


def open_to_readers(folder: str | Path) -> None:
    """Let the umask decide who may read the weights in a folder: safetensors keeps them for their owner alone."""
    for file in Path(folder).glob("*.safetensors"):
        descriptor = open_plain(file, os.O_RDONLY)
        try:
            _let_umask_decide(file, descriptor)
        finally:
            os.close(descriptor)


def flush(path: Path) -> None:
    """Write a file or a folder's names through to the disk, so that a power cut does not leave a journal alone."""
    if path.is_dir() and os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY) if path.is_dir() else os.open(path, os.O_RDWR | NO_LINK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_held(folder: Path) -> bool:
    return bool(_folders_held()) and _inode(folder) in _folders_held()


def _folders_held() -> set[tuple[int, int]]:
    """The folders that this thread holds."""
    if not hasattr(_of_thread, "folders"):
        _of_thread.folders = set()
    return _of_thread.folders


def _inode(folder: Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _settle(inside: InsideFolder, trusted: bool = False) -> bool:
    """Finish the save in a folder if it is complete; return whether an incomplete one is left.

    ``trusted``: the user asked for it, whoever began it.
    """
    if inside.status(STAGING) is None:
        return False
    with inside.subfolder(STAGING) as staging:
        if staging.file_status(JOURNAL) is None:
            return True
        journal = _read_journal(staging)
        is_signed_here = is_signed(journal.signature, *_signed_text(inside, staging, journal))
        if not trusted and not (is_signed_here and _is_of_user(inside, staging)):
            raise UnfinishedSaveError(
                f"{inside.path} holds a save that was interrupted while it moved its files, and that this user did not "
                "begin on this machine: what would be read may be half old and half new. If you know where the folder "
                f"comes from, docsplit_hf.finish_save({str(inside.path)!r}) finishes the save; else do not use it."
            )
    _finish(inside)
    return False


def _finish(inside: InsideFolder) -> None:
    """Move and delete the files in the journal; some may have been moved already."""
    with inside.subfolder(STAGING) as staging:
        journal = _read_journal(staging)
        for name in journal.move:
            _check_move(inside, staging, name)
        for name in journal.delete:
            _check_delete(inside, name)
        for name in journal.move:
            # Files moved before a process was killed are gone.
            with (
                contextlib.suppress(FileNotFoundError),
                staging.parent_of(name) as (source, last),
                inside.parent_of(name, make=True) as (target, _),
            ):
                source.move_to(target, last, last)
        for name in journal.move:
            with inside.parent_of(name) as (target, _):
                target.flush()
        for name in journal.delete:
            with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (parent, last):
                parent.remove(last)
    _discard(inside, warn=False)


def _check_move(inside: InsideFolder, staging: InsideFolder, name: str) -> None:
    """Refuse a file that cannot be moved before any is: a link, a folder, or one that is neither here nor there."""
    there = here = None
    with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (target, last):
        there = target.status(last)
    with contextlib.suppress(FileNotFoundError), staging.parent_of(name) as (source, last):
        here = source.file_status(last)
    if here is None and there is None:
        raise FileNotFoundError(f"{inside.path} has a save that cannot be finished: {name} is missing. Copy it again.")
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise UnsafeFolderError(f"{inside.path / name} is a folder, and a save has a file of that name: delete it.")


def _check_delete(inside: InsideFolder, name: str) -> None:
    """Refuse to delete a folder, or a file behind a link, before anything is moved or deleted."""
    with contextlib.suppress(FileNotFoundError), inside.parent_of(name) as (parent, last):
        there = parent.status(last)
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise UnsafeFolderError(f"{inside.path / name} is a folder, and a save would delete it as a file.")


def _discard(inside: InsideFolder, warn: bool = True) -> None:
    """Delete ``.saving``: the journal and the mark last, as without them the rest is an incomplete save."""
    if inside.status(STAGING) is None:
        return
    if warn:
        message = "A save to %s was interrupted before it was complete: what was there before is kept."
        logger.warning(message, inside.path)
    with inside.subfolder(STAGING) as staging:
        for name in sorted(staging.names(), key=lambda name: (name == MARK, name == JOURNAL)):
            _delete(staging, name)
    with contextlib.suppress(FileNotFoundError):  # another process was first, where there are no locks
        inside.remove_folder(STAGING)


def _delete(folder: InsideFolder, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        status = folder.status(name)
        if status is not None and stat.S_ISDIR(status.st_mode):
            folder.remove_folder(name)
        else:
            folder.remove(name)


def _write_journal(inside: InsideFolder, staging: InsideFolder, last: str, stale: Iterable[str]) -> None:
    """Complete a save: the journal is written once all files are on the disk and can be moved."""
    files = [name for name in staging.files() if name not in OWN_FILES]
    new = sorted(files, key=lambda name: (name == last, name))
    journal = Journal(new, sorted(set(stale) - set(new)), "")
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
    path = staging.path / JOURNAL
    advice = f"Delete {staging.path}; what lies beside it may be half old and half new."
    with open(staging.open_file(JOURNAL, os.O_RDONLY), "rb") as file:
        content = file.read(LARGEST_JOURNAL + 1)
    try:
        if len(content) > LARGEST_JOURNAL:
            raise ValueError("it is too long")
        read = json.loads(content)
        journal = Journal(move=read["move"], delete=read["delete"], signature=read.get("signature", ""))
        if not isinstance(journal.move, list) or not isinstance(journal.delete, list):
            raise TypeError("move and delete are no lists")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnfinishedSaveError(
            f"{path} is no journal of a save ({type(error).__name__}: {error}). {advice}"
        ) from error
    _check_names(path, journal)
    return journal


def _check_names(path: Path, journal: Journal) -> None:
    """Refuse names that lead out of the folder, or to the save itself, or through one another."""
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
        raise UnsafeFolderError(f"{path} names a file twice, or one as the folder of another. {advice}")


def _identity(inside: InsideFolder, staging: InsideFolder) -> list[int]:
    # A copy, an archive and a clone have other inodes. Numbers of devices change when a machine starts.
    return [inside.own_status().st_ino, staging.own_status().st_ino]


def _signed_text(inside: InsideFolder, staging: InsideFolder, journal: Journal) -> list[object]:
    return ["complete", *_identity(inside, staging), journal.move, journal.delete]


def _is_own(inside: InsideFolder) -> bool:
    """Whether this user began the save in a folder, on this machine, or nothing of it is there."""
    with inside.subfolder(STAGING) as staging:
        if set(staging.names()) <= {MARK}:
            return True
        if staging.file_status(MARK) is None:
            return False
        with open(staging.open_file(MARK, os.O_RDONLY), encoding="ascii", errors="replace") as file:
            mark = file.read(1000)
        return is_signed(mark, "begun", *_identity(inside, staging)) and _is_of_user(inside, staging)


def _is_of_user(*folders: InsideFolder) -> bool:
    return not hasattr(os, "geteuid") or {folder.own_status().st_uid for folder in folders} == {os.geteuid()}


def _check_same(path: Path, opened: InsideFolder) -> None:
    """Refuse a folder whose place another one, or a link, took while it was written to by its path."""
    now = os.stat(path, follow_symlinks=False)
    before = opened.own_status()
    if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
        raise UnsafeFolderError(f"{path} was replaced by something else while it was written to: nothing is saved.")


def _write(folder: InsideFolder, name: str, content: str) -> None:
    descriptor = folder.open_file(name, os.O_WRONLY | os.O_CREAT)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _flush_file(folder: InsideFolder, name: str) -> None:
    """Write a new file through to the disk; the umask decides who may read weights."""
    descriptor = folder.open_file(name, os.O_RDWR)
    try:
        if name.endswith(".safetensors"):
            _let_umask_decide(folder.path / name, descriptor)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _let_umask_decide(path: Path, descriptor: int) -> None:
    mask = os.umask(0)  # the only way to read it
    os.umask(mask)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o666 & ~mask)
    else:
        path.chmod(0o666 & ~mask)
