"""KeptSessions: the sessions of all browsers, in memory, with the present texts of each on disk."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ...content_hash import cache_folder, sha256_of_json
from ..pipelines import copied
from .sessions import PageLimits, Session, SharedModel

KEPT_CHANGES = 4  # that can be undone, until the server ends
TEXTS = "texts"  # the folder of the present texts; earlier versions wrote folders with a time as name


class KeptSessions:
    """Sessions by key. Each has a folder below ``HF_HOME``, with its texts after the last change.

    Beyond the limit, those that were used least recently are forgotten.
    """

    def __init__(self, shared: SharedModel, limits: PageLimits) -> None:
        self._shared = shared
        self._limits = limits
        self._opened = lru_cache(maxsize=limits.sessions)(self._load)
        self._lock = threading.RLock()

    def __getitem__(self, key: str | None) -> Session:
        """The session of a key."""
        if not isinstance(key, str) or len(key) < 40:  # keys from ``secrets`` are longer, and cannot be guessed
            raise ValueError("The page is still loading: try again.")
        with self._lock:
            session = self._opened(key)
            with contextlib.suppress(FileNotFoundError):  # nothing was added yet
                os.utime(self._folder(key), ns=(time.time_ns(), time.time_ns()))  # the system's own is coarse
        return session

    @contextlib.contextmanager
    def changing(self, key: str | None) -> Iterator[Session]:
        """A session to change. It is saved afterwards, or restored after an exception."""
        session = self[key]
        with session.lock:
            before = copy.copy(session)
            session.pipe = copied(before.pipe)
            try:
                yield session
                self._store(key, session)
            except BaseException:
                session.restore(before)
                raise
            session.earlier = [*before.earlier, before][-KEPT_CHANGES:]
            before.earlier = []  # which would hold all that came before

    def undo(self, key: str | None) -> Session:
        """Undo the last change of a session."""
        session = self[key]
        with session.lock:
            if not session.earlier:
                raise ValueError("There is nothing to undo.")
            *earlier, last = session.earlier
            session.restore(last)
            session.earlier = earlier
            self._store(key, session)
        return session

    def _folder(self, key: str) -> Path:
        """The folder of a session."""
        # A hash is a valid file name and does not reveal the key. Each encoder has its own sessions.
        return cache_folder("pages") / sha256_of_json([key, self._shared.name])

    def _load(self, key: str) -> Session:
        """Open the texts of a session that are on disk, if there are any."""
        saved = sorted(folder.parent for folder in self._folder(key).glob("*/datastore"))
        return Session(self._shared.new_pipeline(saved[-1] if saved else None), self._limits)

    def _store(self, key: str, session: Session) -> None:
        """Save the present texts of a session in one moment, and forget the sessions beyond the limit."""
        folder = self._folder(key)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if session.pipe.datastore is not None:
            session.pipe.datastore.save_pretrained(folder / TEXTS)
        for old in folder.iterdir():
            if old.name != TEXTS or session.pipe.datastore is None:
                shutil.rmtree(old, ignore_errors=True)
        os.utime(folder, ns=(time.time_ns(), time.time_ns()))
        with self._lock:
            others = sorted(folder.parent.iterdir(), key=lambda other: other.stat().st_mtime_ns, reverse=True)
            for forgotten in others[self._limits.sessions :]:
                shutil.rmtree(forgotten, ignore_errors=True)
