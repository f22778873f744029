"""Tasks: texts with or without labels, loaded from files and folders."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from datasets import Dataset, DatasetDict

from docsplit_hf.content_hash import sha256_of_parts
from docsplit_hf.reading.files.finding import find_files
from docsplit_hf.reading.holding_out import groups_to_hold_out, hold_out_of_each_class
from docsplit_hf.reading.labeled_examples import load_labeled_examples
from docsplit_hf.reading.labels import has_several_labels, label_array, label_names_of, texts_of
from docsplit_hf.reading.load_documents import load_documents
from docsplit_hf.reading.package_documentation import DOCUMENTATION, load_package_documentation
from docsplit_hf.reading.source import (
    DOCUMENT_COLUMNS,
    find_splits,
    find_text_files,
    is_pattern,
    kind_of,
    load_path,
    refuse_missing_file,
)
from docsplit_hf.reading.tables import file_format, read_json_rows

logger = logging.getLogger(__name__)

TEST_FRACTION = 0.2
ROWS_TO_LOOK_AT = 100  # rows of JSON lines from which columns are found, as they may differ by row
# Columns of texts that a folder may have; the first match is used.
TEXT_COLUMNS = (("text_a", "text_b"), ("text", "text_pair"), ("text", None))
KEPT_OF_EACH_CLASS = 20  # examples of each class in a sample of the training set


@dataclass(frozen=True, eq=False)
class ClassificationTask:
    """Texts, or pairs of texts, with one label each; labels are numbers of ``label_names``, int64 ``(N,)``."""

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
        self._check_split("train", self.train_texts, self.train_labels, self.train_pairs)
        self._check_split("test", self.test_texts, self.test_labels, self.test_pairs)
        if len(np.unique(self.train_labels)) < 2:
            label = self.label_names[self.train_labels[0]]
            raise ValueError(
                f"{self.name}: each of the {len(self.train_labels)} training examples has the label {label!r}: "
                "classification needs two labels."
            )

    def _check_split(self, split: str, texts: list[str], labels: np.ndarray, pairs: list[str] | None) -> None:
        """Refuse an empty split, and numbers of texts and labels that differ."""
        pair_count = len(texts) if pairs is None else len(pairs)
        if not len(texts) == len(labels) == pair_count > 0:
            raise ValueError(
                f"{self.name}: {split} has {len(texts)} texts and {len(labels)} labels: give each text a label."
            )

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content, without the name."""
        labels = [self.label_names, self.train_labels.tolist(), self.test_labels.tolist()]
        return content_hash([labels], self.train_texts, self.test_texts, self.train_pairs or [], self.test_pairs or [])

    @cached_property
    def train_inputs(self) -> list[str] | list[tuple[str, str]]:
        """The training texts or pairs; equal ones are held out together."""
        pairs = self.train_pairs
        return self.train_texts if pairs is None else list(zip(self.train_texts, pairs, strict=True))

    @property
    def texts(self) -> list[str]:
        """The test texts, for protocols without labels."""
        return self.test_texts

    @property
    def documents(self) -> list[tuple[str, ...]]:
        """All documents, of training and test; a pair of texts is one document."""
        texts = [*self.train_texts, *self.test_texts]
        pairs = [*(self.train_pairs or ()), *(self.test_pairs or ())]
        return list(zip(texts, pairs, strict=True)) if pairs else [(text,) for text in texts]

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of examples and classes, for the table of data sets."""
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
        """The SHA-256 of the texts."""
        return content_hash(self.texts)

    @property
    def documents(self) -> list[tuple[str, ...]]:
        """All documents."""
        return [(text,) for text in self.texts]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of texts, for the table of data sets."""
        return {"test": len(self.texts)}


EvaluationTask = ClassificationTask | CorpusTask  # or any other class with the properties that both have


def word_counts(texts: Sequence[str], language: str) -> np.ndarray:
    """Count the words of each text, split at spaces, or the characters of Chinese: int64 ``(N,)``."""
    counts = []
    for text in texts:
        words = text.split()
        counts.append(len("".join(words)) if language == "zh" else len(words))
    return np.array(counts, dtype=np.int64)


def content_hash(*parts: Iterable[Any]) -> str:
    """The SHA-256 of lists of JSON values."""
    # An empty line ends a part; the JSON of an item is never empty.
    return sha256_of_parts(
        line for part in parts for line in (*(json.dumps(item).encode() + b"\n" for item in part), b"\n")
    )


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
    """Load a file, folder, or pattern of documents as a task; without labels, as patterns are, it is a ``CorpusTask``.

    The name ``"documentation"`` loads the documentation of packages, with the package as label. If there is no test
    set, the validation set is used, or a held-out fifth of each class. A sample of ``max_train_examples`` has at least
    20 examples of each class. ``prepare`` changes the texts of a split.
    """
    limits = {"train": max_train_examples, "test": max_test_examples}
    if str(name).casefold() == DOCUMENTATION:
        splits = load_labeled_examples(load_package_documentation(), validation_size=0)
        return classification_task(DOCUMENTATION, splits, limits, seed)
    path = Path(name)
    if not path.exists() and not is_pattern(path):
        refuse_missing_file(str(name))
        raise ValueError(f"There is no task {str(name)!r}: give a file, a folder, a pattern or {DOCUMENTATION!r}.")
    if label_column == "label" and not _has_labels(path, csv_separator, encoding):
        return _corpus_task(path, text_column, max_test_examples, seed, csv_separator, encoding)
    text_pair_column = None
    if text_column == "text" and label_column == "label":
        text_column, text_pair_column = find_text_columns(path, csv_separator, encoding)
    splits = load_labeled_examples(
        path,
        text_column=text_column,
        text_pair_column=text_pair_column,
        label_column=label_column,
        csv_separator=csv_separator,
        encoding=encoding,
        validation_size=0,
        seed=seed,
    )
    return classification_task(title_of(path), splits, limits, seed, prepare)


def find_columns(path: Path, csv_separator: str | None = None, encoding: str | None = None) -> list[str]:
    """List the columns of a file from its beginning: in JSON, from the first rows."""
    if kind_of(path) == "documents":
        return [*DOCUMENT_COLUMNS, "label"]
    if path.is_file() and file_format(path) == "json":
        rows = read_json_rows(path, encoding)
        return list(dict.fromkeys(chain.from_iterable(islice(rows, ROWS_TO_LOOK_AT))))
    return list(next(iter(load_path(path, streaming=True, csv_separator=csv_separator, encoding=encoding))))


def find_text_columns(source: Path, csv_separator: str | None, encoding: str | None) -> tuple[str, str | None]:
    """The columns of texts and of second texts in the training file."""
    file = find_splits(source).get("train")
    if file is None:
        raise ValueError(f"The folder {source} has no training set: name a file train.jsonl.")
    columns = find_columns(file, csv_separator, encoding)
    for text_column, text_pair_column in TEXT_COLUMNS:
        if text_column in columns and (text_pair_column is None or text_pair_column in columns):
            return text_column, text_pair_column
    raise ValueError(f"{file} has the columns {columns}, but neither text nor text_a and text_b: rename them.")


def title_of(path: Path) -> str:
    """The name of a task in the tables."""
    if is_pattern(path):
        return path.as_posix()  # its last part names no data set
    return Path(path.name.removesuffix(".gz")).stem


def classification_task(
    name: str,
    splits: DatasetDict,
    limits: Mapping[str, int | None],
    seed: int,
    prepare: Callable[[list[str]], list[str]] | None = None,
    language: str = "en",
) -> ClassificationTask:
    """Make a task from labeled examples; ``limits``: the most examples of the splits ``"train"`` and ``"test"``."""
    label_names = label_names_of(splits["train"])
    train_rows, test_rows = _train_and_test(splits, name, seed)

    def load(split: str, rows: Dataset) -> tuple[list[str], np.ndarray, list[str] | None]:
        labels = label_array(rows, label_names, multi_label=False)
        drawn = draw(len(rows), limits[split], seed, labels if split == "train" else None)
        return _usable(name, split, rows.select(drawn), labels[drawn], prepare)

    train_texts, train_labels, train_pairs = load("train", train_rows)
    test_texts, test_labels, test_pairs = load("test", test_rows)
    return ClassificationTask(
        name,
        train_texts=train_texts,
        train_labels=train_labels,
        test_texts=test_texts,
        test_labels=test_labels,
        label_names=label_names,
        train_pairs=train_pairs,
        test_pairs=test_pairs,
        language=language,
    )


def _usable(
    name: str, split: str, rows: Dataset, labels: np.ndarray, prepare: Callable[[list[str]], list[str]] | None
) -> tuple[list[str], np.ndarray, list[str] | None]:
    """Texts, labels ``(N,)`` and second texts of rows, without empty texts, which are counted in the log."""
    texts, pairs = texts_of(rows)
    if prepare is not None:
        texts = prepare(texts)
    kept = [row for row, text in enumerate(texts) if text.strip()]
    if len(kept) < len(texts):
        logger.warning(f"{name}: {len(texts) - len(kept)} of {len(texts)} texts of {split} are empty: dropped.")
    return [texts[row] for row in kept], labels[kept], None if pairs is None else [pairs[row] for row in kept]


def draw(count: int, most: int | None, seed: int, labels: np.ndarray | None = None) -> np.ndarray:
    """Draw a sample of at most ``most`` rows, ascending; each label keeps 20 rows if ``most`` is large enough."""
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


def _has_labels(path: Path, csv_separator: str | None, encoding: str | None) -> bool:
    """Whether a file has a column of labels, or a folder has folders of classes."""
    if not path.is_dir() and kind_of(path) == "documents":
        return False
    file = find_splits(path).get("train")
    if file is None:
        return False
    if file != path or not path.is_dir():
        return "label" in find_columns(file, csv_separator=csv_separator, encoding=encoding)
    files = find_files(path) if kind_of(path) == "documents" else find_text_files(path)
    classes = sorted({file.relative_to(path).parts[0] for file in files if file.parent != path})
    if len(classes) < 2:
        return False
    shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    logger.info(f"{path} is read as texts with labels, which are its {len(classes)} folders: {shown}.")
    return True


def _train_and_test(splits: DatasetDict, name: str, seed: int) -> tuple[Dataset, Dataset]:
    """Choose training and test examples; without a test set, training examples are held out."""
    train = splits["train"]
    if has_several_labels(train):
        raise ValueError(f"{name} has several labels per text, and only tasks with one label can be evaluated.")
    if {"test", "validation"} <= set(splits):
        logger.info(f"{name}: the {len(splits['validation'])} examples for validation are not used.")
    for split in ("test", "validation"):
        if split in splits:
            return train, splits[split]
    texts, pairs = texts_of(train)
    labels = label_array(train, label_names_of(train), multi_label=False)
    joined = texts if pairs is None else [f"{text} {pair}" for text, pair in zip(texts, pairs, strict=True)]
    groups = groups_to_hold_out(joined, [[label] for label in labels.tolist()])
    kept, held_out = hold_out_of_each_class(groups.tolist(), labels, TEST_FRACTION, seed)
    if len(held_out) == 0:
        raise ValueError(f"{name}: {len(train)} examples with one text in each class leave none to test on: give more.")
    logger.info(f"{name}: there is no test set. {len(held_out)} of {len(train)} examples are held out for it.")
    return train.select(kept), train.select(held_out)


def _corpus_task(
    path: Path, text_column: str, most: int | None, seed: int, csv_separator: str | None, encoding: str | None
) -> CorpusTask:
    """Load a file or folder without labels."""
    rows = load_documents(str(path), test_size=0, csv_separator=csv_separator, encoding=encoding)["train"]
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
