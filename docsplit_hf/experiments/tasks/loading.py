"""Tasks to evaluate on: texts with labels, documents with pairs, texts alone; by name, or from files."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...text.files import find_columns, find_text_files
from ...text.labeled_examples import load_labeled_examples
from ...text.loading import load_documents
from ...text.package_documentation import load_package_documentation
from ...text.paper_tasks import TASKS, load_task
from ...text.sources import find_splits, refuse_missing_file
from .citation_pairs import Pair, has_citation_pairs, read_citation_pairs
from .held_out import hold_out_of_each_class
from .sources import DOCUMENTATION, LONG_DOCUMENT_TASKS, known_name, unknown_task, without_newsgroup_metadata

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

logger = logging.getLogger(__name__)

TEST_SHARE = 0.2
KEPT_OF_EACH_CLASS = 20  # of a sample of the training set


@dataclass(frozen=True, eq=False)
class ClassificationTask:
    """Texts, or pairs of texts, with one label each, to train and to test on.

    Args:
        name: As in the tables.
        train_texts: N texts.
        train_labels: int64 ``(N,)``, numbers in ``label_names``.
        test_texts: M texts.
        test_labels: int64 ``(M,)``.
        label_names: The names of the classes.
        train_pairs: N second texts, in tasks about pairs.
        test_pairs: M second texts.

    Raises:
        ValueError: If there is not one label for each text, a split is empty, or only one class is trained on.

    Example:

        >>> labels = np.array([0, 1])
        >>> task = ClassificationTask("mine", ["good", "bad"], labels, ["fine", "poor"], labels, ["pro", "contra"])
        >>> task.corpus().texts
        ['fine', 'poor']
    """

    name: str
    train_texts: list[str]
    train_labels: np.ndarray
    test_texts: list[str]
    test_labels: np.ndarray
    label_names: list[str]
    train_pairs: list[str] | None = None
    test_pairs: list[str] | None = None

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
        """The training texts, or in tasks about pairs the pairs: what is equal is held out together."""
        pairs = self.train_pairs
        return self.train_texts if pairs is None else list(zip(self.train_texts, pairs, strict=True))

    def corpus(self) -> CorpusTask:
        """The test texts without their labels."""
        return CorpusTask(self.name, self.test_texts)


@dataclass(frozen=True, eq=False)
class PairTask:
    """Documents, and which of them cite each other.

    Args:
        name: As in the tables.
        documents: The text of each document, by its id.
        train: Pairs of ids, and 1 where the first cites the second, else 0.
        test: The same to test on.

    Example:

        >>> PairTask("mine", {"a": "One.", "b": "Two."}, [("a", "b", 1)], [("b", "a", 0)]).corpus().texts
        ['One.', 'Two.']
    """

    name: str
    documents: dict[str, str]
    train: list[Pair]
    test: list[Pair]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content; the name is no part of it."""
        return _sha256(self.documents.items(), self.train, self.test)

    def corpus(self) -> CorpusTask:
        """The documents alone."""
        return CorpusTask(self.name, list(self.documents.values()))


@dataclass(frozen=True, eq=False)
class CorpusTask:
    """Texts without labels.

    Args:
        name: As in the tables.
        texts: The texts.

    Example:

        >>> CorpusTask("mine", ["One."]).corpus().texts
        ['One.']
    """

    name: str
    texts: list[str]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the content; the name is no part of it."""
        return _sha256(self.texts)

    def corpus(self) -> CorpusTask:
        """Itself."""
        return self


EvaluationTask = ClassificationTask | PairTask | CorpusTask


def load_evaluation_task(
    name: str | Path,
    folder: str | Path | None = None,
    max_train_examples: int | None = None,
    max_test_examples: int | None = None,
    seed: int = 0,
    text_column: str = "text",
    label_column: str = "label",
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> EvaluationTask:
    """Load a task of the papers by its name, or one of your own from a file or a folder.

    The official training set is trained on and the official test set is tested on: for GLUE and CLUE, whose test labels
    are hidden, the development set. Where there is no test set it is the validation set, and where there is neither, a
    fifth of the different texts of each class is held out by ``seed``. A validation set beside a test set is not used:
    what needs held-out examples holds its own out of the training set, the same for all. The papers do not say how they
    split the data sets that come without a test set (FakeNews, arXiv, NYT, BBC).

    Texts of ``20News`` are without headers, signatures and quotations, from a path of that name too: see
    ``without_newsgroup_metadata``. Empty texts, and those without a label, are dropped and counted in the log.

    Args:
        name: ``FakeNews``, ``20News``, ``arXiv``, ``NYT``, ``BBCNews``, ``AAN``, one of the six tasks of GLUE and six
            of CLUE in ``docsplit_hf.text.paper_tasks.TASKS``, or ``documentation`` (of installed packages, by package;
            needs no network). Case, hyphens and blanks do not matter. Or a path: a file (``.jsonl``, ``.json``,
            ``.csv``, ``.tsv``, ``.parquet``, also with ``.gz``) or a folder with ``train`` and maybe ``test`` in such
            files, with the columns ``text`` (or ``text_a`` and ``text_b``) and ``label``, or as folders with a folder
            of ``.txt`` files for each class; a folder with two such folders of classes or more; a folder with pairs of
            documents, as ``read_citation_pairs`` reads it; or, without a column ``label``, or in other ``.txt`` files,
            texts alone.
        folder: Where the files of a task with a name are, laid out as above. None: it is loaded from the Hub.
        max_train_examples: At most so many training examples (or pairs), drawn by ``seed``. Each class keeps 20 of its
            examples, if it has them, so that a few of each can still be drawn; the others are drawn from all alike.
        max_test_examples: The same for the test set, and for texts alone.
        seed: Decides what is held out and what is drawn.
        text_column: In files of your own: the column with the texts. Tasks with a name know theirs.
        label_column: The same of the labels.
        csv_separator: What separates the columns of ``.csv`` files. None: a comma, in ``.tsv`` a tab.
        encoding: Of files. None: UTF-8, or UTF-16 where a file begins with its byte order mark.

    Returns:
        The task.

    Raises:
        FileNotFoundError: If a file or folder is not there.
        ValueError: If there is no such task, it is not on the Hub, or what is in the files cannot be used.

    Example:

        >>> import json, tempfile
        >>> file = Path(tempfile.mkdtemp()) / "reviews.jsonl"
        >>> rows = [{"text": f"Review {i}.", "label": "good" if i % 2 else "bad"} for i in range(20)]
        >>> _ = file.write_text("".join(json.dumps(row) + chr(10) for row in rows))
        >>> task = load_evaluation_task(file)
        >>> task.name, len(task.train_texts), len(task.test_texts), task.label_names
        ('reviews', 16, 4, ['bad', 'good'])
    """
    known = known_name(str(name))
    if known is None and folder is not None:
        raise ValueError(f"{unknown_task(str(name))} A folder of your own is a task itself: give it instead of a name.")
    if known is None and not Path(name).exists():
        refuse_missing_file(str(name))
        raise ValueError(f"{unknown_task(str(name))} Or give a file or a folder.")
    limits = {"train": max_train_examples, "test": max_test_examples}
    if known == "AAN" or (known is None and Path(name).is_dir() and has_citation_pairs(Path(name))):
        if known and folder is None:
            raise ValueError(f"AAN is not on the Hub: give its folder. {LONG_DOCUMENT_TASKS['AAN'].note}")
        return _pair_task(known or Path(name).name, Path(folder or name), limits, seed)
    options = {"csv_separator": csv_separator, "encoding": encoding}
    if known is None and label_column == "label" and not _has_labels(Path(name), options):
        return _corpus_task(Path(name), text_column, max_test_examples, seed, options)
    if known is None and (text_column, label_column) != ("text", "label"):
        columns = {"text_column": text_column, "label_column": label_column}
        splits = load_labeled_examples(name, **columns, **options, validation_size=0, seed=seed)
    elif folder or not known:
        splits = load_task(folder or name, seed, validation_size=0, **options)
    else:
        splits = _from_hub(known, seed)
    title = known or Path(Path(name).name.removesuffix(".gz")).stem
    return _classification_task(title, _train_and_test(splits, title, seed), limits, seed)


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


def _from_hub(name: str, seed: int) -> DatasetDict:
    if name == DOCUMENTATION:
        return load_labeled_examples(load_package_documentation(), validation_size=0)
    if name in TASKS:
        return load_task(name, seed, validation_size=0)
    source = LONG_DOCUMENT_TASKS[name]
    if source.dataset is None:
        raise ValueError(f"{name} is not on the Hub: give its folder. {source.note}")
    import datasets

    logger.info(f"{name} is loaded from {source.dataset}. {source.note}")
    loaded = datasets.load_dataset(source.dataset)
    if source.prepare is not None:
        loaded = loaded.map(source.prepare, remove_columns=loaded["train"].column_names, desc=f"Preparing {name}")
    columns = {"text_column": source.text_column, "label_column": source.label_column}
    return load_labeled_examples(loaded, **columns, validation_size=0, seed=seed)


def _train_and_test(splits: DatasetDict, name: str, seed: int) -> dict[str, Dataset]:
    train = splits["train"]
    if not hasattr(train.features["label"], "names"):
        raise ValueError(f"{name} has several labels a text. Only tasks with one label a text can be evaluated here.")
    if "test" in splits or "validation" in splits:
        unused = len(splits["validation"]) if {"test", "validation"} <= set(splits) else 0
        if unused:
            logger.info(f"{name}: the {unused} examples for validation are not used.")
        return {"train": train, "test": splits["test"] if "test" in splits else splits["validation"]}
    columns = [train[column][:] for column in train.column_names if column.startswith("text")]
    inputs = list(zip(*columns, strict=True))
    kept, held_out = hold_out_of_each_class(inputs, np.array(train["label"][:]), TEST_SHARE, seed)
    if len(held_out) == 0:
        raise ValueError(f"{name}: {len(train)} examples with one text in each class leave none to test on: give more.")
    logger.info(f"{name}: there is no test set. {len(held_out)} of {len(train)} examples are held out for it.")
    return {"train": train.select(kept), "test": train.select(held_out)}


def _classification_task(
    name: str, splits: dict[str, Dataset], limits: dict[str, int | None], seed: int
) -> ClassificationTask:
    parts: dict[str, Any] = {}
    for split, rows in splits.items():
        of_class = np.array(rows["label"][:]) if split == "train" else None
        rows = rows.select(_draw(len(rows), limits[split], seed, of_class))
        texts, labels = list(rows["text"]), np.array(rows["label"][:], dtype=np.int64)
        if known_name(name) == "20News":
            texts = without_newsgroup_metadata(texts)
        kept = [row for row, text in enumerate(texts) if text.strip()]
        if len(kept) < len(texts):
            logger.warning(f"{name}: {len(texts) - len(kept)} of {len(texts)} texts of {split} are empty: dropped.")
        parts[f"{split}_texts"], parts[f"{split}_labels"] = [texts[row] for row in kept], labels[kept]
        if "text_pair" in rows.column_names:
            pairs = list(rows["text_pair"])
            parts[f"{split}_pairs"] = [pairs[row] for row in kept]
    return ClassificationTask(name, label_names=splits["train"].features["label"].names, **parts)


def _pair_task(name: str, folder: Path, limits: dict[str, int | None], seed: int) -> PairTask:
    pairs = read_citation_pairs(folder)
    splits = {
        split: [rows[row] for row in _draw(len(rows), limits[split], seed)]
        for split, rows in (("train", pairs.train), ("test", pairs.test))
    }
    used = {document for rows in splits.values() for first, second, _ in rows for document in (first, second)}
    return PairTask(name, {key: text for key, text in pairs.documents.items() if key in used}, **splits)


def _corpus_task(
    path: Path, text_column: str, most: int | None, seed: int, options: dict[str, str | None]
) -> CorpusTask:
    rows = load_documents(str(path), test_size=0, **options)["train"]
    if text_column not in rows.column_names:
        raise ValueError(f"{path} has the columns {rows.column_names}, but no {text_column!r}: choose text_column.")
    rows = rows.select(_draw(len(rows), most, seed))
    texts = [text for text in rows[text_column] if isinstance(text, str) and text.strip()]
    dropped = f" Dropped: {len(rows) - len(texts)} empty." if len(texts) < len(rows) else ""
    logger.log(
        logging.WARNING if dropped else logging.INFO,
        f"{path} has no labels (no column label, no folders of classes): {len(texts)} texts alone.{dropped}",
    )
    if not texts:
        raise ValueError(f"{path} holds no text.")
    return CorpusTask(Path(path.name.removesuffix(".gz")).stem, texts)


def _draw(count: int, most: int | None, seed: int, labels: np.ndarray | None = None) -> np.ndarray:
    if most is not None and most < 1:
        raise ValueError(f"The most examples to use must be at least 1, got {most}.")
    if most is None or most >= count:
        return np.arange(count)
    order = np.random.default_rng(seed).permutation(count)
    if labels is not None:
        rank_in_class = np.empty(count, dtype=np.int64)
        for label in np.unique(labels):
            rows = order[labels[order] == label]
            rank_in_class[rows] = np.arange(len(rows))
        floor = min(KEPT_OF_EACH_CLASS, most // len(np.unique(labels)))
        order = order[np.argsort(rank_in_class[order] >= floor, kind="stable")]
    return np.sort(order[:most])


def _sha256(*parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        for item in part:
            digest.update(json.dumps(item).encode() + b"\n")
        digest.update(b"\n")  # no item is an empty line, so this ends a part
    return digest.hexdigest()
