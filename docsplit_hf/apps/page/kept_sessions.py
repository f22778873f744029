"""KeptSessions: the sessions of all browsers, in memory, with the present texts of each on disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from ...content_hash import sha256_of_json
from ...storage.inside_folder import write_file
from ..pipelines import copied
from .sessions import PageLimits, Session, SharedModel

KEPT_CHANGES = 4  # that can be undone, until the server ends
READING = "reading.json"  # how texts were read; written last, so a state without it is incomplete


class KeptSessions:
    """Sessions by key. Each has a folder below ``HF_HOME``, with its state after the last change.

    Beyond the limits, those that were used least recently are forgotten.
    """

    def __init__(self, shared: SharedModel, limits: PageLimits) -> None:
        self._shared = shared
        self._limits = limits
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.RLock()

    def __getitem__(self, key: str | None) -> Session:
        """The session of a key."""
        if not isinstance(key, str) or len(key) < 40:  # keys from ``secrets`` are longer, and cannot be guessed
            raise ValueError("The page is still loading: try again.")
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = self._load(key)
            self._sessions.move_to_end(key)
            while len(self._sessions) > self._limits.sessions:
                self._sessions.popitem(last=False)
            with contextlib.suppress(FileNotFoundError):  # nothing was added yet
                os.utime(self._folder(key))
            return self._sessions[key]

    @contextlib.contextmanager
    def changing(self, key: str | None) -> Iterator[Session]:
        """A session to change. It is saved afterwards, or restored after an exception."""
        session = self[key]
        with session.lock:
            before = session.moment()
            session.pipe = copied(before.pipe)
            try:
                yield session
                self._store(key, session)
            except BaseException:
                session.go_back(before)
                raise
            session.earlier = [*session.earlier, before][-KEPT_CHANGES:]

    def undo(self, key: str | None) -> Session:
        """Undo the last change of a session."""
        session = self[key]
        with session.lock:
            if not session.earlier:
                raise ValueError("There is nothing to undo.")
            session.go_back(session.earlier.pop())
            self._store(key, session)
        return session

    def _folder(self, key: str) -> Path:
        """The folder of a session."""
        from huggingface_hub import constants

        # A hash is a valid file name and does not reveal the key. Each encoder has its own sessions.
        return Path(constants.HF_HOME) / "docsplit_hf" / "pages" / sha256_of_json([key, self._shared.name])

    def _load(self, key: str) -> Session:
        """Read the last complete state of a session; without one, it has no texts."""
        states = sorted(file.parent for file in self._folder(key).glob(f"*/{READING}"))
        if not states or not (states[-1] / "datastore").is_dir():
            return Session(self._shared.new_pipeline(), self._limits)
        reading = json.loads((states[-1] / READING).read_text(encoding="utf-8"))
        pipe = self._shared.new_pipeline(str(states[-1]), reading["long_documents"], reading["passage_length"])
        session = Session(pipe, self._limits)
        session.replace(pipe, reading["kept"])
        return session

    def _store(self, key: str, session: Session) -> None:
        """Write the state of a session beside the last one, which is then deleted."""
        folder = self._folder(key)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = folder / f"{time.time_ns():020}"
        if session.pipe.datastore is not None:
            session.pipe.datastore.save_pretrained(new)
        config = session.pipe.model.config
        reading = {
            "long_documents": config.long_documents,
            "passage_length": config.passage_length,
            "kept": session.kept,
        }
        new.mkdir(exist_ok=True)
        write_file(new / READING, json.dumps(reading))
        for old in folder.iterdir():
            if old != new:
                shutil.rmtree(old, ignore_errors=True)
        with self._lock:
            self._make_room(folder)

    def _make_room(self, own: Path) -> None:
        """Delete sessions, the least recently used first, until the limits are met; not the one just changed."""
        others = sorted(own.parent.iterdir(), key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
        others.remove(own)
        room = self._limits.disk_megabytes * 10**6 - _size(own)
        for number, folder in enumerate(others, start=1):
            room -= _size(folder)
            if number >= self._limits.sessions or room < 0:
                shutil.rmtree(folder, ignore_errors=True)


def _size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
