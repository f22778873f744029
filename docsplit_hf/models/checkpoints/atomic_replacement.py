"""Files of a folder are replaced all together or not at all, even if the process is killed; locks and checksums."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

STAGING = ".saving"  # in the folder itself, so that moving files out of it is renaming them
JOURNAL = "journal.json"  # written last: from then on the new files are complete
# What a model is loaded by. A model that is saved in its place may have others: those that are left are deleted.
MODEL_FILES = re.compile(
    r"(adapter_)?model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?|(adapter_)?config\.json|modules\.json"
)


@contextlib.contextmanager
def replaced_at_once(
    folder: str | Path, last: str, stale: Callable[[Path], Iterable[str]] = lambda folder: ()
) -> Iterator[Path]:
    """Give an empty folder to write to; its files take the place of those in ``folder`` together, when the block ends.

    Other files stay, but for those that ``stale`` names. A journal says what to move and delete, ``last`` at the end: a
    process that dies before it leaves the old files, and after it ``finish_replacement`` goes on.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        _finish(folder)
        staging = folder / STAGING
        staging.mkdir()
        try:
            yield staging
            files = [path for path in staging.rglob("*") if path.is_file()]
            places = {staging, *(file.parent for file in files)}
            for place in places:
                open_to_readers(place)
            new = sorted(
                (file.relative_to(staging).as_posix() for file in files), key=lambda name: (name == last, name)
            )
            temporary = staging / f"{JOURNAL}.tmp"
            journal = {"move": new, "delete": sorted(set(stale(folder)) - set(new))}
            temporary.write_text(json.dumps(journal), encoding="ascii")
            for path in (*files, temporary, *places):
                flush(path)
            os.replace(temporary, staging / JOURNAL)
            flush(staging)
        except BaseException:  # a keyboard interrupt too: half of the files are of no use
            shutil.rmtree(staging)
            raise
        _finish(folder)


def finish_replacement(folder: str | Path) -> bool:
    """Finish a replacement that a killed process began, or delete what it had not finished writing.

    Call it before a folder is read. It tells whether anything was under way, so that what was read before may be older.
    """
    folder = Path(folder)
    if not (folder / STAGING).is_dir():
        return False
    if not os.access(folder, os.W_OK):
        message = "A save to %s was interrupted, and there is no write access to finish it: what is read may be older."
        logger.warning(message, folder)
        return False
    with locked(folder) as is_alone:
        if is_alone or (folder / STAGING / JOURNAL).is_file():  # moving twice does no harm
            _finish(folder)
    return True


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Lock a folder, or a file, which is made if it is not there; yields whether the system has locks.

    ``wait=False`` raises ``BlockingIOError`` if another process has the lock, or has just deleted the file.
    """
    try:
        import fcntl
    except ImportError:  # Windows: let only one process write there at a time
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
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


def sha256_of(path: Path) -> str:
    """64 hexadecimal digits of what a file holds."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_files(folder: Path) -> list[str]:
    """The names of the files in a folder that a model is loaded by: weights, configuration, modules."""
    return sorted(path.name for path in folder.glob("*") if MODEL_FILES.fullmatch(path.name))


def open_to_readers(folder: str | Path) -> None:
    """Let the umask decide who may read the weights in a folder: safetensors keeps them for their owner alone."""
    mask = os.umask(0)  # the only way to read it
    os.umask(mask)
    for file in Path(folder).glob("*.safetensors"):
        file.chmod(0o666 & ~mask)


def flush(path: Path) -> None:
    """Have the disk hold it, so that a power cut does not leave a journal without what it names."""
    if path.is_dir() and os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _finish(folder: Path) -> None:
    staging = folder / STAGING
    if not staging.is_dir():
        return
    if (staging / JOURNAL).is_file():
        journal = _read_journal(folder)
        for name in journal["move"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # what was moved before the process died
                os.replace(staging / name, folder / name)
        for place in {(folder / name).parent for name in journal["move"]}:
            flush(place)
        for name in journal["delete"]:
            (folder / name).unlink(missing_ok=True)
        for path in [path for path in staging.iterdir() if path.name != JOURNAL]:
            shutil.rmtree(path, ignore_errors=True)  # folders that are empty now
        (staging / JOURNAL).unlink(missing_ok=True)  # last: without it, the rest looks like an incomplete save
    else:
        logger.warning("A save to %s was interrupted before it was complete: what was there before is kept.", folder)
    shutil.rmtree(staging, ignore_errors=True)


def _read_journal(folder: Path) -> dict[str, list[str]]:
    path = folder / STAGING / JOURNAL
    journal = json.loads(path.read_text(encoding="ascii"))
    inside = folder.resolve()
    for name in (*journal["move"], *journal["delete"]):
        if not (inside / name).resolve().is_relative_to(inside):  # the folder may come from a stranger
            raise ValueError(f"{path} names {name!r}, which is not in {folder}: delete {folder / STAGING}.")
    return journal
