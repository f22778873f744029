"""What is evaluated on: texts with labels, or texts alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np


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
    language: str = "en"
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
        return content_hash([labels], self.train_texts, self.test_texts, self.train_pairs or [], self.test_pairs or [])

    @cached_property
    def train_inputs(self) -> list[str] | list[tuple[str, str]]:
        """The training texts, or in tasks about pairs the pairs: equal inputs are held out together."""
        pairs = self.train_pairs
        return self.train_texts if pairs is None else list(zip(self.train_texts, pairs, strict=True))

    @property
    def texts(self) -> list[str]:
        """The texts to test on, for what needs no labels."""
        return self.test_texts

    @property
    def documents(self) -> list[tuple[str, ...]]:
        """Of training and test; two texts that are one example are one document."""
        texts = [*self.train_texts, *self.test_texts]
        pairs = [*(self.train_pairs or ()), *(self.test_pairs or ())]
        return list(zip(texts, pairs, strict=True)) if pairs else [(text,) for text in texts]

    @property
    def sizes(self) -> dict[str, int]:
        return {"train": len(self.train_texts), "test": len(self.test_texts), "classes": len(self.label_names)}


@dataclass(frozen=True, eq=False)
class CorpusTask:
    """Texts without labels."""

    name: str
    texts: list[str]
    language: str = "en"
    kind: ClassVar[str] = "texts alone"

    @cached_property
    def fingerprint(self) -> str:
        return content_hash(self.texts)

    @property
    def documents(self) -> list[tuple[str, ...]]:
        return [(text,) for text in self.texts]

    @property
    def sizes(self) -> dict[str, int]:
        return {"test": len(self.texts)}


EvaluationTask = ClassificationTask | CorpusTask  # or any other class with the properties of these


def word_counts(texts: Sequence[str], language: str) -> np.ndarray:
    """The words of each text, int64 ``(N,)``: split at spaces, of Chinese the characters."""
    chinese = language == "zh"
    return np.array([len("".join(text.split()) if chinese else text.split()) for text in texts], dtype=np.int64)


def content_hash(*parts: Iterable[Any]) -> str:
    """The SHA-256 of lists of what JSON can hold."""
    digest = hashlib.sha256()
    for part in parts:
        for item in part:
            digest.update(json.dumps(item).encode() + b"\n")
        digest.update(b"\n")  # no item is an empty line, so this ends a part
    return digest.hexdigest()
