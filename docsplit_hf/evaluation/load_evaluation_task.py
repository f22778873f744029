"""load_evaluation_task: the papers' tasks by their names, and one's own from files and folders."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
from datasets import Dataset, DatasetDict

from ...text.file_formats import find_columns, find_text_files
from ...text.labeled_examples import load_labeled_examples
from ...text.labels import is_multi_label, label_array, label_names_of, texts_of
from ...text.load_documents import load_documents
from ...text.package_documentation import load_package_documentation
from ...text.paper_tasks import TASKS, load_task
from ...text.sources import find_splits, refuse_missing_file
from .citation_pairs import has_citation_pairs, read_citation_pairs
from .held_out import hold_out_of_each_class
from .known_tasks import DOCUMENTATION, LONG_DOCUMENT_TASKS, NEWSGROUPS, known_name, newsgroup_texts, unknown_task
from .task import ClassificationTask, CorpusTask, EvaluationTask, PairTask
from .wikipedia_tasks import WIKIPEDIA_TASKS, wikipedia_splits

logger = logging.getLogger(__name__)

TEST_SHARE = 0.2
KEPT_OF_EACH_CLASS = 20  # of a sample of the training set


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
    newsgroups: str = "stripped",
) -> EvaluationTask:
    """Load a task of the papers by its name (without one in ``folder``, from the Hub), or one of your own by its path.

    A path is a file that ``load_labeled_examples`` reads; a folder with ``train`` and maybe ``test``, as such files or
    as folders of classes; a folder of two classes or more; pairs of documents, as ``read_citation_pairs`` reads them;
    or, without labels, texts alone.

    The official training set is trained on and the official test set is tested on: for GLUE and CLUE, whose test labels
    are hidden, the development set. Where there is no test set it is the validation set, and where there is neither, a
    fifth of the different texts of each class is held out by ``seed``. A validation set beside a test set is not used:
    what needs held-out examples holds its own out of the training set. The papers do not say how they split the data
    sets that come without a test set (FakeNews, arXiv, NYT, BBC).

    Of the training set at most ``max_train_examples`` are drawn by ``seed``, such that each class keeps 20 of its
    examples, if it has them: a few of each can still be drawn. ``text_column`` and ``label_column`` are for your own
    files. ``newsgroups`` is what is left of the posts of 20 Newsgroups, ``"stripped"``, ``"body"`` or ``"raw"``; the
    name of the task says it, unless they are stripped. ``WIKIPEDIA_TASKS`` are made of the articles in ``folder``.
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
    if known in WIKIPEDIA_TASKS:
        if folder is None:
            raise ValueError(
                f"{known} is made of Wikipedia's articles: give a file or folder of them, with the section titles, as "
                f"--task_folders {known}=articles.jsonl."
            )
        articles = load_documents(str(folder), test_size=0, **options)["train"][text_column]
        return _classification_task(known, wikipedia_splits(articles, known, seed), limits, seed, newsgroups)
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
    return _classification_task(title, _train_and_test(splits, title, seed), limits, seed, newsgroups)


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
    logger.info(f"{name} is loaded from {source.dataset}. {source.note}")
    loaded = datasets.load_dataset(source.dataset)
    if source.prepare is not None:
        loaded = loaded.map(source.prepare, remove_columns=loaded["train"].column_names, desc=f"Preparing {name}")
    columns = {"text_column": source.text_column, "label_column": source.label_column}
    return load_labeled_examples(loaded, **columns, validation_size=0, seed=seed)


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


def _classification_task(
    name: str, splits: dict[str, Dataset], limits: dict[str, int | None], seed: int, newsgroups: str
) -> ClassificationTask:
    parts: dict[str, Any] = {}
    is_newsgroups = known_name(name) == "20News"
    names = label_names_of(splits["train"])
    for split, rows in splits.items():
        labels = label_array(rows, names, multi_label=False)
        drawn = _draw(len(rows), limits[split], seed, labels if split == "train" else None)
        rows, labels = rows.select(drawn), labels[drawn]
        texts, pairs = texts_of(rows)
        if is_newsgroups:
            texts = newsgroup_texts(texts, newsgroups)
        kept = [row for row, text in enumerate(texts) if text.strip()]
        if len(kept) < len(texts):
            logger.warning(f"{name}: {len(texts) - len(kept)} of {len(texts)} texts of {split} are empty: dropped.")
        parts[f"{split}_texts"], parts[f"{split}_labels"] = [texts[row] for row in kept], labels[kept]
        parts[f"{split}_pairs"] = None if pairs is None else [pairs[row] for row in kept]
    return ClassificationTask(f"{name}{NEWSGROUPS[newsgroups] * is_newsgroups}", label_names=names, **parts)


def _pair_task(name: str, folder: Path, limits: dict[str, int | None], seed: int) -> PairTask:
    task = read_citation_pairs(folder, name)
    splits = {"train": task.train, "test": task.test}
    drawn = {split: [rows[row] for row in _draw(len(rows), limits[split], seed)] for split, rows in splits.items()}
    return task.with_pairs(**drawn)


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
        floor = min(KEPT_OF_EACH_CLASS, most // len(np.unique(labels)))
        rank_in_class = pd.Series(order).groupby(labels[order]).cumcount().to_numpy()
        order = order[np.argsort(rank_in_class >= floor, kind="stable")]
    return np.sort(order[:most])
