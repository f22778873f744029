"""Session: what one visitor has given. Nothing of it is seen by another one."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .limits import Limits

if TYPE_CHECKING:
    from ..neighbors.pipeline import KNNClassifierPipeline
    from ..neighbors.store.datastore import KNNDatastore


@dataclass(eq=False)
class Session:
    """The pipeline of one visitor, and what they are looking at."""

    pipe: KNNClassifierPipeline
    limits: Limits
    suggestions: list[dict[str, Any]] = field(default_factory=list)  # those that wait for a label
    findings: list[str | None] = field(default_factory=list)  # the ids of the texts in the audit's table
    lock: threading.RLock = field(default_factory=threading.RLock)  # one change at a time
    _folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="docsplit-demo-")
    )

    @property
    def folder(self) -> Path:
        """For files to download; deleted with the session."""
        return Path(self._folder.name)

    @property
    def store(self) -> KNNDatastore:
        """The labeled texts, of which there are some."""
        if self.pipe.datastore is None or not len(self.pipe.datastore):
            raise ValueError("No labeled texts yet: add some on the tab Texts.")
        return self.pipe.datastore

    def replace(self, pipe: KNNClassifierPipeline) -> None:
        """Go on with other texts."""
        self.pipe, self.suggestions, self.findings = pipe, [], []

    @property
    def fitted(self) -> bool:
        """Whether there are experts to explain answers."""
        return self.pipe.datastore is not None and self.pipe.datastore.fitted is not None

    @property
    def measured(self) -> dict[str, list]:
        """The table of how good each expert was on texts that it had not learned."""
        rows = self.pipe.datastore.fitted.settings["measured"] if self.fitted else []
        names = list(rows[0]) if rows else []
        data = [[row[names[0]], *(f"{row[one]:.3f}" if "loss" in one else f"{row[one]:.0%}" for one in names[1:])]
                for row in rows]  # fmt: skip
        return {"headers": [name.replace("_f1", " F1").replace("_", " ") for name in names], "data": data}

    @property
    def labels(self) -> list[str]:
        """The names of the labels that some text has, in their order."""
        store = self.pipe.datastore
        return [] if store is None else [store.label_names[number] for number in sorted(set(store.labels.tolist()))]

    def counts(self) -> tuple[int, int, int]:
        """How many texts have a label, how many labels there are, and how many texts have none."""
        store = self.pipe.datastore
        return (0, 0, 0) if store is None else (len(store), len(self.labels), len(store.documents or ()))
