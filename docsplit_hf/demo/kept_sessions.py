"""The session of each visitor by the key that their browser keeps: in memory, and on the disk after a restart."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .limits import Limits
from .session import Session
from .shared_model import SharedModel

if TYPE_CHECKING:
    from ..neighbors.pipeline import KNNClassifierPipeline

STEPS = 5  # states of a session that are kept: the present one, and those to go back to


class KeptSessions:
    """Below ``HF_HOME`` a folder for each key, which has a folder for each state: all texts, and what was learned."""

    def __init__(self, shared: SharedModel, limits: Limits) -> None:
        self._shared, self._limits = shared, limits
        self._live: dict[str, Session] = {}
        self._lock = threading.Lock()

    def __getitem__(self, key: str | None) -> Session:
        """The session of a key. Those asked for last stay in memory."""
        if not isinstance(key, str) or len(key) < 40:  # ``secrets`` makes longer ones, which nobody guesses
            raise ValueError("The page is still loading: try again.")
        with self._lock:
            session = self._live.pop(key, None) or Session(self._open(*self.steps(key)[-1:]), self._limits)
            self._live[key] = session
            while len(self._live) > self._limits.sessions:
                del self._live[next(iter(self._live))]
        return session

    @contextmanager
    def changing(self, key: str | None) -> Iterator[Session]:
        """A session to change: kept when all went well, and as it was when not."""
        session = self[key]
        with session.lock:
            if not self.steps(key):
                self._keep(key, session)  # what ``undo`` goes back to
            try:
                yield session
                self._keep(key, session)
            except BaseException:
                session.replace(self._open(*self.steps(key)[-1:]))
                raise

    def undo(self, key: str | None) -> Session:
        """The session without its last change."""
        session = self[key]
        with session.lock:
            *_, before, last = [None, None, *self.steps(key)]
            if before is None:
                raise ValueError("There is nothing to undo.")
            session.replace(self._open(before))
            shutil.rmtree(last)
        return session

    def _folder(self, key: str | None) -> Path:
        from huggingface_hub import constants

        # Whatever the key is, this is a name, which does not tell the key. Another encoder has other sessions.
        name = hashlib.sha256(json.dumps([key, self._shared.name]).encode()).hexdigest()
        return Path(constants.HF_HOME) / "docsplit_hf" / "pages" / name

    def steps(self, key: str | None) -> list[Path]:
        """The states that are kept, the present one last."""
        return sorted(self._folder(key).glob("[0-9]*"))

    def _open(self, step: Path | None = None) -> KNNClassifierPipeline:
        if step is None or not (step / "datastore").is_dir():
            return self._shared.new_pipeline()
        return self._shared.new_pipeline(str(step), **json.loads((step / "reading.json").read_text()))

    def _keep(self, key: str, session: Session) -> None:
        folder, steps = self._folder(key), self.steps(key)
        folder.mkdir(0o700, parents=True, exist_ok=True)
        unfinished = folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        if session.pipe.datastore is not None:
            session.pipe.datastore.save_pretrained(unfinished)
        reading = {name: getattr(session.pipe.model.config, name) for name in ("long_documents", "passage_length")}
        (unfinished / "reading.json").write_text(json.dumps(reading))
        unfinished.rename(folder / f"{int(steps[-1].name) + 1 if steps else 0:09}")
        by_age = sorted(folder.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in {*steps[: 1 - STEPS], *by_age[: -self._limits.sessions]}:
            shutil.rmtree(old)
