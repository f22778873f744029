"""Tasks: texts with labels or texts alone, and how a file or folder becomes one."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from datasets import Dataset, DatasetDict

from ..text.file_formats import find_columns, find_text_files
from ..text.holding_out import hold_out_of_each_class
from ..text.labeled_examples import load_labeled_examples
from ..text.labels import is_multi_label, label_array, label_names_of, texts_of
from ..text.load_documents import load_documents
from ..text.package_documentation import DOCUMENTATION, load_package_documentation
from ..text.paper_tasks import load_task
from ..text.sources import find_splits, refuse_missing_file

logger = logging.getLogger(__name__)

TEST_SHARE = 0.2
KEPT_OF_EACH_CLASS = 20  # of a sample of the training set


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
                    f"{self.name}: {split} has {len(texts)} texts and {len(labels)} labels: give each a label."
                )
        if len(np.unique(self.train_labels)) < 2:
            only = (
                f"{len(self.train_labels)} training examples has the label {self.label_names[self.train_labels[0]]!r}"
            )
            raise ValueError(f"{self.name}: each of the {only}: there is nothing to tell apart.")

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content; the name is no part of it."""
        labels = [self.label_names, self.train_labels.tolist(), self.test_labels.tolist()]
        return content_hash([labels], self.train_texts, self.test_texts, self.train_pairs or [], self.test_pairs or [])

    @cached_property
    def train_inputs(self) -> list[str] | list[tuple[str, str]]:
        """The training texts or pairs. Equal inputs are held out together."""
        pairs = self.train_pairs
        return self.train_texts if pairs is None else list(zip(self.train_texts, pairs, strict=True))

    @property
    def texts(self) -> list[str]:
        """The texts to test on, for what needs no labels."""
        return self.test_texts

    @property
    def documents(self) -> list[tuple[str, ...]]:
        """The documents of training and test; a pair of texts is one document."""
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
    """The number of words of each text, int64 ``(N,)``, split at spaces; in Chinese the characters."""
    chinese = language == "zh"
    return np.array([len("".join(text.split()) if chinese else text.split()) for text in texts], dtype=np.int64)


def content_hash(*parts: Iterable[Any]) -> str:
    """The SHA-256 of lists of JSON values."""
    digest = hashlib.sha256()
    for part in parts:
        for item in part:
            digest.update(json.dumps(item).encode() + b"\n")
        digest.update(b"\n")  # no item is an empty line, so this ends a part
    return digest.hexdigest()


def load_evaluation_task(
    name: str | Path,
    max_train_examples: int | None = None,
    max_test_examples: int | None = None,
    seed: int = 0,
    text_column: str = "text",
    label_column: str = "label",
    csv_separator: str | None = None,
    encoding: str | None = None,
    prepare: Callable[[list[str]], list[str]] | None = None,
) -> ClassificationTask | CorpusTask:
    """Load a file or folder, without labels as texts alone; or ``"documentation"``: that of packages, by package.

    Without a test set the validation set is tested on, and without either a fifth of each class, held out by ``seed``.
    Of ``max_train_examples`` each class keeps 20. ``prepare`` changes the texts of a split.
    """
    limits = {"train": max_train_examples, "test": max_test_examples}
    if str(name).casefold() == DOCUMENTATION:
        splits = load_labeled_examples(load_package_documentation(), validation_size=0)
        return classification_task(DOCUMENTATION, splits, limits, seed)
    path = Path(name)
    if not path.exists():
        refuse_missing_file(str(name))
        raise ValueError(f"There is no task {str(name)!r}: give a file, a folder or {DOCUMENTATION!r}.")
    options = {"csv_separator": csv_separator, "encoding": encoding}
    if label_column == "label" and not _has_labels(path, options):
        return _corpus_task(path, text_column, max_test_examples, seed, options)
    if (text_column, label_column) != ("text", "label"):
        columns = {"text_column": text_column, "label_column": label_column}
        splits = load_labeled_examples(path, **columns, **options, validation_size=0, seed=seed)
    else:
        splits = load_task(path.absolute(), seed, validation_size=0, **options)  # a path is no name of a task
    return classification_task(title_of(path), splits, limits, seed, prepare)


def title_of(path: Path) -> str:
    """The name of a task in the tables."""
    return Path(path.name.removesuffix(".gz")).stem


def classification_task(
    name: str,
    splits: DatasetDict,
    limits: Mapping[str, int | None],
    seed: int,
    prepare: Callable[[list[str]], list[str]] | None = None,
    language: str = "en",
) -> ClassificationTask:
    """A task of labeled examples, of which ``limits`` says how many are used of each split."""
    parts: dict[str, Any] = {}
    names = label_names_of(splits["train"])
    for split, rows in _train_and_test(splits, name, seed).items():
        labels = label_array(rows, names, multi_label=False)
        drawn = draw(len(rows), limits[split], seed, labels if split == "train" else None)
        rows, labels = rows.select(drawn), labels[drawn]
        texts, pairs = texts_of(rows)
        texts = texts if prepare is None else prepare(texts)
        kept = [row for row, text in enumerate(texts) if text.strip()]
        if len(kept) < len(texts):
            logger.warning(f"{name}: {len(texts) - len(kept)} of {len(texts)} texts of {split} are empty: dropped.")
        parts[f"{split}_texts"], parts[f"{split}_labels"] = [texts[row] for row in kept], labels[kept]
        parts[f"{split}_pairs"] = None if pairs is None else [pairs[row] for row in kept]
    return ClassificationTask(name, label_names=names, language=language, **parts)


def draw(count: int, most: int | None, seed: int, labels: np.ndarray | None = None) -> np.ndarray:
    """The rows of a sample, ascending; each label keeps 20 if there is room."""
    if most is not None and most < 1:
        raise ValueError(f"The most examples to use must be at least 1, got {most}.")
    if most is None or most >= count:
        return np.arange(count)
    order = np.random.default_rng(seed).permutation(count)
    if labels is not None:
        floor = min(KEPT_OF_EACH_CLASS, most // len(np.unique(labels)))
        rank_in_class = pd.Series(order).groupby(labels[order]).cumcount().to_numpy()
        order = order[np.argsort(rank_in_class >= floor, kind="stable")]
    return np.sort(order[:most])


def _has_labels(path: Path, options: dict[str, str | None]) -> bool:
    file = find_splits(path).get("train")
    if file is None or file != path or not path.is_dir():
        return file is not None and "label" in find_columns(file, **options)
    classes = sorted({file.relative_to(path).parts[0] for file in find_text_files(path) if file.parent != path})
    if len(classes) < 2:
        return False
    shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    logger.info(f"{path} is read as texts with labels, which are its {len(classes)} folders: {shown}.")
    return True


def _train_and_test(splits: DatasetDict, name: str, seed: int) -> dict[str, Dataset]:
    train = splits["train"]
    if is_multi_label(train):
        raise ValueError(f"{name} has several labels per text. Only tasks with one label can be evaluated here.")
    if {"test", "validation"} <= set(splits):
        logger.info(f"{name}: the {len(splits['validation'])} examples for validation are not used.")
    for split in ("test", "validation"):
        if split in splits:
            return {"train": train, "test": splits[split]}
    texts, pairs = texts_of(train)
    labels = label_array(train, label_names_of(train), multi_label=False)
    inputs = texts if pairs is None else list(zip(texts, pairs, strict=True))
    kept, held_out = hold_out_of_each_class(inputs, labels, TEST_SHARE, seed)
    if len(held_out) == 0:
        raise ValueError(f"{name}: {len(train)} examples with one text in each class leave none to test on: give more.")
    logger.info(f"{name}: there is no test set. {len(held_out)} of {len(train)} examples are held out for it.")
    return {"train": train.select(kept), "test": train.select(held_out)}


def _corpus_task(
    path: Path, text_column: str, most: int | None, seed: int, options: dict[str, str | None]
) -> CorpusTask:
    rows = load_documents(str(path), test_size=0, **options)["train"]
    if text_column not in rows.column_names:
        raise ValueError(f"{path} has the columns {rows.column_names}, but no {text_column!r}: choose text_column.")
    rows = rows.select(draw(len(rows), most, seed))
    texts = [text for text in rows[text_column] if isinstance(text, str) and text.strip()]
    dropped = f" Dropped: {len(rows) - len(texts)} empty." if len(texts) < len(rows) else ""
    message = f"{path} has no labels (no column label, no folders of classes): {len(texts)} texts alone.{dropped}"
    logger.log(logging.WARNING if dropped else logging.INFO, message)
    if not texts:
        raise ValueError(f"{path} holds no text.")
    return CorpusTask(title_of(path), texts)
