"""KeptSessions: the sessions of all visitors, in memory and on disk, limited in number and size."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import re
import secrets
import shutil
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from ...content_hash import sha256_of_json
from ...storage.atomic_replacement import locked
from .sessions import PageLimits, Session, SharedModel

logger = logging.getLogger(__name__)

KEPT_STATES = 5  # states of a session: the current one, and four that undo can restore
SESSION_DISK_DIVISOR = 4  # a session may take a fourth of the disk space of all sessions
UNFINISHED = "unfinished"  # folder of a state that is being written
DELETED_PREFIX = "gone-"  # of folders that are being deleted
VISITOR_FILE = "visitor"
FOLDER_NAME = re.compile("[0-9a-f]{64}")
VISITOR: ContextVar[str] = ContextVar("VISITOR", default="this machine")  # set for each event


def visitor_of(address: str | None) -> str:
    """Identify a visitor by network address; all addresses of a 64-bit IPv6 network are one visitor."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or "unknown"
    return str(parsed if parsed.version == 4 else ipaddress.ip_network((parsed, 64), strict=False))


class StoredSession(NamedTuple):
    """A session on disk."""

    folder: Path
    visitor: str
    used: int  # time of the last write or read, in nanoseconds
    size: int  # bytes


def deletion_order(stored: Iterable[StoredSession], by_size: bool) -> list[StoredSession]:
    """Order sessions for deletion: those of the visitor with the most sessions (``by_size``: bytes) come first.

    Sessions of a visitor are ordered by their last use, oldest first. Therefore a visitor who keeps making new keys
    displaces only their own sessions.
    """
    stored = list(stored)
    totals = Counter()
    for session in stored:
        totals[session.visitor] += session.size if by_size else 1
    return sorted(stored, key=lambda session: (-totals[session.visitor], session.used))


class KeptSessions:
    """Sessions by key. Each has a folder below ``HF_HOME``, with a folder for each state that undo can restore.

    A folder is locked while it is read or written: against other threads by the session's lock, and against other
    processes by a lock file. The modification time of a folder is the time of its last use.
    """

    def __init__(self, shared: SharedModel, limits: PageLimits) -> None:
        self._shared = shared
        self._limits = limits
        # A key has a single session object while any thread uses it. The latest ones are kept in memory.
        self._sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._latest: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()  # for the two dictionaries only

    def __getitem__(self, key: str | None) -> Session:
        """The session of a key, in its latest state on disk."""
        if not isinstance(key, str) or len(key) < 40:  # keys from ``secrets`` are longer, and cannot be guessed
            raise ValueError("The page is still loading: try again.")
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = Session(None, self._limits)
        # A session that another thread uses is up to date; a new one has to be loaded first.
        if session.lock.acquire(blocking=session.pipe is None):
            try:
                if session.pipe is None or session.step != self._last_step(key):
                    with self._locked(key):
                        self._update(key, session)
            finally:
                session.lock.release()
        with contextlib.suppress(FileNotFoundError):  # nothing was added yet
            os.utime(self._folder(key))
        with self._lock:
            self._latest[key] = session
            self._latest.move_to_end(key)
            while len(self._latest) > self._limits.sessions:
                self._latest.popitem(last=False)
        return session

    @contextlib.contextmanager
    def changing(self, key: str | None) -> Iterator[Session]:
        """A session to change. It is saved afterwards, or restored after an exception."""
        session = self[key]
        with session.lock, self._locked(key):
            self._update(key, session)
            if session.step is None:
                self._store(key, session)  # the empty state, for ``undo``
            try:
                yield session
                self._store(key, session)
            except BaseException:
                self._restore(key, session, session.step)
                raise
        self._make_room(self._folder(key))

    def undo(self, key: str | None) -> Session:
        """Undo the last change of a session."""
        session = self[key]
        with session.lock, self._locked(key):
            self._update(key, session)
            steps = self.steps(key)
            if len(steps) < 2:
                raise ValueError("There is nothing to undo.")
            self._restore(key, session, steps[-2].name)
            _delete(steps[-1])
        return session

    def steps(self, key: str | None) -> list[Path]:
        """The folders of the kept states, the current one last."""
        folder = self._folder(key)
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        return [folder / name for name in sorted(names) if name[0].isdigit()]

    def _last_step(self, key: str | None) -> str | None:
        """The name of the current state on disk; None if there is none."""
        steps = self.steps(key)
        return steps[-1].name if steps else None

    def _home(self) -> Path:
        """The folder of all sessions and locks."""
        from huggingface_hub import constants

        return Path(constants.HF_HOME) / "docsplit_hf"

    def _folder(self, key: str | None) -> Path:
        """The folder of a session."""
        # A hash is a valid file name and does not reveal the key. Each encoder has its own sessions.
        name = sha256_of_json([key, self._shared.name])
        return self._home() / "pages" / name

    def _locked(self, key: str | None) -> contextlib.AbstractContextManager[bool]:
        """Lock a session's folder against other processes."""
        return self._lock_file(self._folder(key).name)

    def _lock_file(self, name: str, wait: bool = True) -> contextlib.AbstractContextManager[bool]:
        """The lock of a folder. Lock files are never deleted; therefore all sessions share 4,096 of them."""
        locks = self._home() / "pages_locks"
        locks.mkdir(0o700, parents=True, exist_ok=True)
        return locked(locks / name[:3], wait)

    def _update(self, key: str | None, session: Session) -> None:
        """Load the latest state if another process has changed or deleted it."""
        last = self._last_step(key)
        if session.pipe is None or session.step != last:
            self._restore(key, session, last)

    def _restore(self, key: str | None, session: Session, name: str | None) -> None:
        """Load a state by its name; None: the empty one."""
        step = None if name is None else self._folder(key) / name
        if step is None or not (step / "datastore").is_dir():
            session.replace(self._shared.new_pipeline())
        else:
            reading = json.loads((step / "reading.json").read_text())
            pipe = self._shared.new_pipeline(str(step), reading.get("long_documents"), reading.get("passage_length"))
            session.replace(pipe, reading.get("kept", ()))
        session.step = name

    def _store(self, key: str | None, session: Session) -> None:
        """Write the current state, and delete the oldest ones."""
        folder = self._folder(key)
        steps = self.steps(key)
        if not folder.is_dir():
            folder.mkdir(0o700, parents=True)
            (folder / VISITOR_FILE).write_text(VISITOR.get(), encoding="utf-8")
        unfinished = folder / UNFINISHED
        _finish_deletions(folder)
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
        unfinished.mkdir()
        if session.pipe.datastore is not None:
            session.pipe.datastore.save_pretrained(unfinished)
        config = session.pipe.model.config
        reading = {
            "long_documents": config.long_documents,
            "passage_length": config.passage_length,
            "kept": session.kept,
        }
        (unfinished / "reading.json").write_text(json.dumps(reading))
        for old in self._states_to_delete(steps, unfinished):
            _delete(old)
        number = int(steps[-1].name.partition("-")[0]) + 1 if steps else 0
        # Names are unique, so that after ``undo`` another process notices that this is another state.
        session.step = f"{number:09}-{secrets.token_hex(4)}"
        unfinished.rename(folder / session.step)

    def _states_to_delete(self, steps: list[Path], new: Path) -> list[Path]:
        """The oldest states, which have no room beside a new one; a new state that is too large is refused."""
        allowed = self._limits.disk_megabytes * 10**6 // SESSION_DISK_DIVISOR
        new_size = _size(new)
        if new_size > allowed:
            shutil.rmtree(new)
            raise ValueError(
                f"These texts take {new_size / 10**6:,.1f} MB on the disk, and this page keeps "
                f"{allowed / 10**6:,.1f} MB of a visitor: leave some out, or start docsplit demo with a larger "
                "--max_disk_megabytes."
            )
        room = allowed - new_size
        fitting = 0
        for step in reversed(steps[1 - KEPT_STATES :]):
            room -= _size(step)
            if room < 0:
                logger.info("Fewer changes can be undone: the earlier states take too much of the disk.")
                break
            fitting += 1
        return steps[: len(steps) - fitting]

    def _make_room(self, own: Path) -> None:
        """Delete sessions until the limits are met, except ``own``, which was just changed."""
        with self._lock_file("room"):
            _finish_deletions(own.parent)
            stored = [session for session in map(_stored_session, own.parent.iterdir()) if session is not None]
            while True:
                too_many = len(stored) > self._limits.sessions
                too_large = sum(session.size for session in stored) > self._limits.disk_megabytes * 10**6
                if not too_many and not too_large:
                    return
                order = deletion_order(stored, by_size=not too_many)
                deleted = next((one for one in order if one.folder != own and self._try_to_delete(one)), None)
                if deleted is None:
                    return
                stored.remove(deleted)

    def _try_to_delete(self, session: StoredSession) -> bool:
        """Delete a session unless it is in use; return whether it was deleted."""
        try:
            with self._lock_file(session.folder.name, wait=False):
                if session.folder.stat().st_mtime_ns != session.used:
                    return False
                _delete(session.folder)
        except BlockingIOError:
            return False
        except FileNotFoundError:
            pass  # a server without locks was faster
        logger.info("Deleted the texts of a visitor, to make room.")
        return True


def _stored_session(folder: Path) -> StoredSession | None:
    """Describe the session in a folder; None if there is none."""
    if not FOLDER_NAME.fullmatch(folder.name):
        return None
    try:
        used = folder.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    try:
        visitor = (folder / VISITOR_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        visitor = folder.name  # earlier versions wrote no such file
    return StoredSession(folder, visitor, used, _size(folder))


def _size(folder: Path) -> int:
    """The bytes of all files in a folder; files that are deleted in the meantime do not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _delete(folder: Path) -> None:
    """Rename a folder and delete it, so that a killed process leaves no folder that looks complete."""
    renamed = folder.with_name(f"{DELETED_PREFIX}{secrets.token_hex(8)}")
    folder.rename(renamed)
    shutil.rmtree(renamed)


def _finish_deletions(folder: Path) -> None:
    """Delete folders that killed processes have begun to delete."""
    for left in folder.glob(f"{DELETED_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
