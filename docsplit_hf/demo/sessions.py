"""A session: one visitor's own pipeline and texts, within limits."""

from __future__ import annotations

import copy
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..neighbors.experts.fitted_experts import FittedExperts, ReadyExperts
    from ..neighbors.pipeline import KNNClassifierPipeline
    from ..neighbors.store.datastore import KNNDatastore


def counted(number: int, noun: str) -> str:
    """``1 text``, ``2 texts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percentage(share: float) -> str:
    """``94%``; but what is less than all is not 100%, and what is more than nothing is not 0%."""
    rounded = f"{share:.0%}"
    if rounded == "100%" and share < 1:
        return "above 99%"
    if rounded == "0%" and share > 0:
        return "below 1%"
    return rounded


@dataclass(frozen=True)
class Limits:
    """Each is an argument of ``docsplit demo``: ``--max_rows``, ..."""

    rows: int = 10_000  # of a file, and of all texts of a session
    megabytes: int = 100  # of an upload; a saved classifier has the encoder in it
    labels: int = 200
    characters: int = 100_000  # of a text
    sessions: int = 100  # that are kept, in memory and on the disk; which one goes: kept_sessions.py
    disk_megabytes: int = 10_000  # of all sessions that are kept

    def check_texts(self, texts: Iterable[str]) -> None:
        """Refuse a text that is too long."""
        for number, text in enumerate(texts, start=1):
            if len(text) > self.characters:
                raise ValueError(
                    f"Text {number} has {len(text):,} characters, and this page takes {self.characters:,}: cut it, or "
                    "start docsplit demo with a larger --max_characters."
                )

    def check_rows(self, rows: int) -> None:
        """Refuse too many texts."""
        if rows > self.rows:
            raise ValueError(
                f"These are {rows:,} texts or more, and this page takes {self.rows:,}: leave some out, or start "
                "docsplit demo with a larger --max_rows."
            )

    def check_labels(self, labels: Iterable[str]) -> None:
        """Refuse too many labels, and those that are no names."""
        different = set(labels)
        if len(different) > self.labels:
            raise ValueError(
                f"There are {len(different):,} different labels, and this page takes {self.labels:,}: is it the right "
                "column?"
            )
        longest = max(different, key=len, default="")
        if len(longest) > LABEL_CHARACTERS:
            raise ValueError(
                f"The label {longest[:40] + ' ...'!r} has {len(longest):,} characters, and this page takes "
                f"{LABEL_CHARACTERS}: is it the right column?"
            )


LABEL_CHARACTERS = 200
PASSAGE_LENGTH = 128  # tokens: short enough that a passage says where to look


class SharedModel:
    """An encoder, or a saved classifier, by its name; None is the encoder that ships."""

    def __init__(self, name: str | None = None) -> None:
        from transformers import pipeline

        import docsplit_hf  # noqa: F401  which registers the pipeline

        self.name = name
        self._first: KNNClassifierPipeline = pipeline("docsplit-knn", **({} if name is None else {"model": name}))

    def new_pipeline(
        self,
        datastore: KNNDatastore | str | None = None,
        long_documents: str | None = None,
        passage_length: int | None = None,
    ) -> KNNClassifierPipeline:
        """A pipeline with the shared weights, and a configuration, a tokenizer and a datastore of its own."""
        from ..neighbors.pipeline import KNNClassifierPipeline

        first = self._first
        model = copy.copy(first.model)  # the weights are the same tensors
        model.config = copy.deepcopy(first.model.config)
        if datastore is None and first.datastore is not None:
            datastore = copy.deepcopy(first.datastore)
        if datastore is None:
            most = first.embedder.max_length or PASSAGE_LENGTH
            reading = {"long_documents": "passages", "passage_length": min(PASSAGE_LENGTH, most)}
        else:
            reading = {}
            if long_documents is not None:
                model.config.long_documents, model.config.passage_length = long_documents, passage_length
        pipe = KNNClassifierPipeline(
            model=model, tokenizer=copy.deepcopy(first.tokenizer), datastore=datastore, device=first.device, **reading
        )
        if pipe.datastore is not None and pipe.datastore.multi_label:
            raise ValueError("Its texts may have several labels each, and this page gives one: use docsplit_hf itself.")
        return pipe


@dataclass(eq=False)
class Session:
    """The pipeline of one visitor, and what they are looking at."""

    pipe: KNNClassifierPipeline
    limits: Limits
    kept: list[str] = field(default_factory=list)  # the ids of texts whose labels were looked at, and are right
    listed: list[str] = field(default_factory=list)  # the ids of the texts in the list
    findings: list[Any] = field(default_factory=list)  # of the audit, as they are listed
    suggestions: list[dict[str, Any]] = field(default_factory=list)  # those that wait for a label
    step: str | None = None  # the state on the disk that it holds
    stale: bool = False  # whether there are labels that were not learned from yet
    map: tuple[int | None, list[str], np.ndarray | None] = (None, [], None)  # a hash of its texts, their ids and places
    lock: threading.RLock = field(default_factory=threading.RLock)  # one change at a time
    _folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="docsplit-demo-")
    )
    _ready: ReadyExperts | None = None

    @property
    def folder(self) -> Path:
        """For files to download; deleted with the session."""
        return Path(self._folder.name)

    @property
    def store(self) -> KNNDatastore:
        """The labeled texts; raises if there are none."""
        if self.pipe.datastore is None or not len(self.pipe.datastore):
            raise ValueError("No text has a label yet: give some a label in step 2 or 4.")
        return self.pipe.datastore

    def replace(self, pipe: KNNClassifierPipeline, kept: Iterable[str] = ()) -> None:
        """Replace all texts."""
        self.pipe, self.kept = pipe, list(kept)
        self.stale = self.fitted is not None and self.fitted.settings["examples"] != len(pipe.datastore)

    @property
    def fitted(self) -> FittedExperts | None:
        """The experts that explain answers, if there are any."""
        from ..neighbors.experts.fitted_experts import ready_experts

        store = self.pipe.datastore
        self._ready = None if store is None else ready_experts(store.snapshot, self._ready)
        return None if self._ready is None else self._ready.fitted

    @property
    def labels(self) -> list[str]:
        """The names of the labels that some text has, in their order."""
        store = self.pipe.datastore
        return [] if store is None else [store.label_names[number] for number in sorted(set(store.labels.tolist()))]

    def counts(self) -> tuple[int, int, int]:
        """How many texts have a label, how many labels there are, and how many texts have none."""
        store = self.pipe.datastore
        return (0, 0, 0) if store is None else (len(store), len(self.labels), len(store.documents or ()))
