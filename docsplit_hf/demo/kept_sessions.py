"""The sessions of all visitors, in memory and on the disk: shared by threads and processes, and bounded."""

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

from ..content_hash import sha256_of_json
from ..models.checkpoints.atomic_replacement import locked
from .sessions import Limits, Session, SharedModel

logger = logging.getLogger(__name__)

STEPS = 5  # states of a session that are kept: the present one, and those to go back to
LARGEST_SHARE = 4  # of the disk that all sessions have, one may take the fourth part
UNFINISHED = "unfinished"  # a state that is being written
GONE = "gone-"  # what is being deleted
VISITOR_FILE = "visitor"
FOLDER_NAME = re.compile("[0-9a-f]{64}")
VISITOR: ContextVar[str] = ContextVar("VISITOR", default="this machine")  # who asks; set for each event


def visitor_of(address: str | None) -> str:
    """Who asks, by a network address: an IPv6 visitor has a network of 64 bits, and all of its addresses."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return address or "unknown"
    return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))


class Kept(NamedTuple):
    """A session on the disk."""

    folder: Path
    visitor: str
    used: int  # when it was last written or read, in nanoseconds
    size: int  # bytes


def first_to_go(kept: Iterable[Kept], by_size: bool) -> list[Kept]:
    """The sessions in the order in which they make room: of whoever has most of them, the least recently used.

    A visitor who comes with new keys again and again makes room for them alone.
    """
    kept, has = list(kept), Counter()
    for one in kept:
        has[one.visitor] += one.size if by_size else 1
    return sorted(kept, key=lambda one: (-has[one.visitor], one.used))


class KeptSessions:
    """The sessions by key. Below ``HF_HOME`` each has a folder, with a folder for each state that can be undone.

    Whoever writes or reads a folder has locked it, against threads by the session's lock and against processes by a
    file. The time of a folder is when it was used.
    """

    def __init__(self, shared: SharedModel, limits: Limits) -> None:
        self._shared, self._limits = shared, limits
        # A key has one session as long as anybody holds it. The latest ones are held here.
        self._sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._latest: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()  # of these two alone

    def __getitem__(self, key: str | None) -> Session:
        """The session of a key, as it is on the disk."""
        if not isinstance(key, str) or len(key) < 40:  # ``secrets`` makes longer ones, which nobody guesses
            raise ValueError("The page is still loading: try again.")
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = Session(None, self._limits)
        # A session that is busy is up to date already; a new one has to wait for whoever loads it.
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
        """A session to change. It is saved if all goes well, and restored if not."""
        session = self[key]
        with session.lock, self._locked(key):
            self._update(key, session)
            if session.step is None:
                self._keep(key, session)  # what ``undo`` goes back to
            try:
                yield session
                self._keep(key, session)
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
            _remove(steps[-1])
        return session

    def steps(self, key: str | None) -> list[Path]:
        """The states that are kept, the present one last."""
        folder = self._folder(key)
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        return [folder / name for name in sorted(names) if name[0].isdigit()]

    def _last_step(self, key: str | None) -> str | None:
        steps = self.steps(key)
        return steps[-1].name if steps else None

    def _home(self) -> Path:
        from huggingface_hub import constants

        return Path(constants.HF_HOME) / "docsplit_hf"

    def _folder(self, key: str | None) -> Path:
        # A valid file name for any key, which does not reveal it. Another encoder has other sessions.
        name = sha256_of_json([key, self._shared.name])
        return self._home() / "pages" / name

    @contextlib.contextmanager
    def _locked(self, key: str | None) -> Iterator[None]:
        """Keep other processes away from a session's folder."""
        with self._lock_file(self._folder(key).name):
            yield

    def _lock_file(self, name: str, wait: bool = True) -> contextlib.AbstractContextManager[bool]:
        """The lock of a folder. Its file is never deleted, so sessions share 4,096 of them."""
        locks = self._home() / "pages_locks"
        locks.mkdir(0o700, parents=True, exist_ok=True)
        return locked(locks / name[:3], wait)

    def _update(self, key: str | None, session: Session) -> None:
        """Load what another process wrote, or deleted, in the meantime."""
        last = self._last_step(key)
        if session.pipe is None or session.step != last:
            self._restore(key, session, last)

    def _restore(self, key: str | None, session: Session, name: str | None) -> None:
        step = None if name is None else self._folder(key) / name
        if step is None or not (step / "datastore").is_dir():
            session.replace(self._shared.new_pipeline())
        else:
            reading = json.loads((step / "reading.json").read_text())
            kept = reading.pop("kept", ())
            session.replace(self._shared.new_pipeline(str(step), **reading), kept)
        session.step = name

    def _keep(self, key: str | None, session: Session) -> None:
        """Write the present state, and delete the oldest ones."""
        folder, steps = self._folder(key), self.steps(key)
        if not folder.is_dir():
            folder.mkdir(0o700, parents=True)
            (folder / VISITOR_FILE).write_text(VISITOR.get(), encoding="utf-8")
        unfinished = folder / UNFINISHED
        _remove_rest(folder)
        shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
        unfinished.mkdir()
        if session.pipe.datastore is not None:
            session.pipe.datastore.save_pretrained(unfinished)
        reading = {name: getattr(session.pipe.model.config, name) for name in ("long_documents", "passage_length")}
        (unfinished / "reading.json").write_text(json.dumps(reading | {"kept": session.kept}))
        for old in self._too_many(steps, unfinished):
            _remove(old)
        number = int(steps[-1].name.partition("-")[0]) + 1 if steps else 0
        # A name comes only once: after ``undo``, another process must see that this is another state.
        session.step = f"{number:09}-{secrets.token_hex(4)}"
        unfinished.rename(folder / session.step)

    def _too_many(self, steps: list[Path], new: Path) -> list[Path]:
        """The states for which there is no room beside a new one; raises if there is none for that either."""
        most = self._limits.disk_megabytes * 10**6 // LARGEST_SHARE
        room = most - _size(new)
        if room < 0:
            shutil.rmtree(new)
            raise ValueError(
                f"These texts take {(most - room) / 10**6:,.1f} MB on the disk, and this page keeps "
                f"{most / 10**6:,.1f} MB of a visitor: leave some out, or start docsplit demo with a larger "
                "--max_disk_megabytes."
            )
        fit = 0
        for step in reversed(steps[1 - STEPS :]):
            room -= _size(step)
            if room < 0:
                logger.info("Fewer changes can be undone: the earlier states take too much of the disk.")
                break
            fit += 1
        return steps[: len(steps) - fit]

    def _make_room(self, own: Path) -> None:
        """Delete sessions that are too many or too large together, but not the one that was just changed."""
        with self._lock_file("room"):
            _remove_rest(own.parent)
            kept = [one for one in map(_kept, own.parent.iterdir()) if one is not None]
            are_over = True
            while are_over:
                total = sum(one.size for one in kept)
                by_count, by_size = len(kept) > self._limits.sessions, total > self._limits.disk_megabytes * 10**6
                order = first_to_go(kept, by_size=not by_count) if by_count or by_size else []
                gone = next((one for one in order if one.folder != own and self._deleted(one)), None)
                are_over = gone is not None
                if gone is not None:
                    kept.remove(gone)

    def _deleted(self, one: Kept) -> bool:
        """Delete a session, unless somebody uses it."""
        try:
            with self._lock_file(one.folder.name, wait=False):
                if one.folder.stat().st_mtime_ns != one.used:
                    return False
                _remove(one.folder)
        except BlockingIOError:
            return False
        except FileNotFoundError:
            pass  # a server without locks was faster
        logger.info("Deleted the texts of a visitor, to make room.")
        return True


def _kept(folder: Path) -> Kept | None:
    """What is kept in a folder; None if it is none of ours, or gone."""
    if not FOLDER_NAME.fullmatch(folder.name):
        return None
    try:
        used = folder.stat().st_mtime_ns
    except FileNotFoundError:
        return None
    try:
        visitor = (folder / VISITOR_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        visitor = folder.name  # of an earlier version, which did not write it
    return Kept(folder, visitor, used, _size(folder))


def _size(folder: Path) -> int:
    """The bytes of all files in a folder, less those that are deleted meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _remove(folder: Path) -> None:
    """Delete a folder. Whoever is killed meanwhile leaves none that looks complete."""
    gone = folder.with_name(f"{GONE}{secrets.token_hex(8)}")
    folder.rename(gone)
    shutil.rmtree(gone)


def _remove_rest(folder: Path) -> None:
    """Delete what a process that was killed had not deleted to the end."""
    for left in folder.glob(f"{GONE}*"):
        shutil.rmtree(left, ignore_errors=True)
