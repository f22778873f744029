"""The three kinds of task to evaluate on: texts with labels, pairs of documents, texts alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...text.paper_tasks import TASKS

Pair = tuple[str, str, int]  # two ids of documents, and 1 where the first cites the second, else 0


@dataclass(frozen=True, eq=False)
class ClassificationTask:
    """Texts, or pairs of texts, with one label each; labels are int64, numbers in ``label_names``."""

    name: str
    train_texts: list[str]
    train_labels: np.ndarray
    test_texts: list[str]
    test_labels: np.ndarray
    label_names: list[str]
    train_pairs: list[str] | None = None  # the second texts
    test_pairs: list[str] | None = None
    kind: ClassVar[str] = "texts with labels"

    def __post_init__(self) -> None:
        for split in ("train", "test"):
            texts, labels, pairs = (getattr(self, f"{split}_{part}") for part in ("texts", "labels", "pairs"))
            if not len(texts) == len(labels) == len(texts if pairs is None else pairs) > 0:
                raise ValueError(
                    f"{self.name}: {split} has {len(texts)} texts and {len(labels)} labels. There must be at least one "
                    "text, and a label (and a second text, if any) for each."
                )
        if len(np.unique(self.train_labels)) < 2:
            raise ValueError(
                f"{self.name}: each of the {len(self.train_labels)} training examples has the label "
                f"{self.label_names[int(self.train_labels[0])]!r}: there is nothing to tell apart."
            )

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content; the name is no part of it."""
        labels = [self.label_names, self.train_labels.tolist(), self.test_labels.tolist()]
        return _sha256([labels], self.train_texts, self.test_texts, self.train_pairs or [], self.test_pairs or [])

    @cached_property
    def train_inputs(self) -> list[str] | list[tuple[str, str]]:
        """The training texts, or in tasks about pairs the pairs: equal inputs are held out together."""
        pairs = self.train_pairs
        return self.train_texts if pairs is None else list(zip(self.train_texts, pairs, strict=True))

    @property
    def texts(self) -> list[str]:
        """The test texts, for experiments that need no labels."""
        return self.test_texts


@dataclass(frozen=True, eq=False)
class PairTask:
    """Documents by their ids, and which of them cite each other."""

    name: str
    documents: dict[str, str]
    train: list[Pair]
    test: list[Pair]
    kind: ClassVar[str] = "pairs of documents"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content; the name is no part of it."""
        return _sha256(self.documents.items(), self.train, self.test)

    def with_pairs(self, train: list[Pair], test: list[Pair]) -> PairTask:
        """The task with these pairs; documents that are in none are left out."""
        used = {key for first, second, _ in (*train, *test) for key in (first, second)}
        return PairTask(self.name, {key: text for key, text in self.documents.items() if key in used}, train, test)

    @property
    def texts(self) -> list[str]:
        """The documents alone."""
        return list(self.documents.values())


@dataclass(frozen=True, eq=False)
class CorpusTask:
    """Texts without labels."""

    name: str
    texts: list[str]
    kind: ClassVar[str] = "texts alone"

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content; the name is no part of it."""
        return _sha256(self.texts)


EvaluationTask = ClassificationTask | PairTask | CorpusTask
ANY_TASK = (ClassificationTask, PairTask, CorpusTask)


def language_of(task: EvaluationTask) -> str:
    """The two-letter code by which the texts are split into sentences; ``"en"`` for files of one's own."""
    return TASKS[task.name].language if task.name in TASKS else "en"


def word_counts(texts: Sequence[str], task: EvaluationTask) -> np.ndarray:
    """The words of each text, int64 ``(N,)``: split at spaces, of Chinese the characters."""
    chinese = language_of(task) == "zh"
    return np.array([len("".join(text.split()) if chinese else text.split()) for text in texts], dtype=np.int64)


def _sha256(*parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        for item in part:
            digest.update(json.dumps(item).encode() + b"\n")
        digest.update(b"\n")  # no item is an empty line, so this ends a part
    return digest.hexdigest()
