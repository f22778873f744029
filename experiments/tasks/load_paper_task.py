"""load_paper_task: load the papers' tasks by name, or your own from a path."""

from __future__ import annotations

import dataclasses
import logging
from functools import partial
from pathlib import Path
from typing import Any

import datasets
from datasets import DatasetDict

from docsplit_hf.reading.labeled_examples import load_labeled_examples
from docsplit_hf.reading.load_documents import load_documents
from docsplit_hf.reading.source import refuse_missing_file

from ..evaluation.tasks import (
    DOCUMENTATION,
    EvaluationTask,
    classification_task,
    draw,
    load_evaluation_task,
    title_of,
)
from .citation_pairs import PairTask, has_citation_pairs, read_citation_pairs
from .known_tasks import LONG_DOCUMENT_TASKS, NEWSGROUPS, known_name, newsgroup_texts, unknown_task
from .paper_tasks import TASKS, load_task
from .wikipedia_tasks import WIKIPEDIA_TASKS, wikipedia_splits

logger = logging.getLogger(__name__)


def load_paper_task(
    name: str | Path,
    folder: str | Path | None = None,
    max_train_examples: int | None = None,
    max_test_examples: int | None = None,
    seed: int = 0,
    newsgroups: str = "stripped",
    **own: Any,
) -> EvaluationTask:
    """Load a task of the papers by its name (without one in ``folder``, from the Hub), or one of your own by its path.

    A path is either a file or folder for ``load_evaluation_task``, which gets the ``own`` options, or a folder with
    pairs of documents for ``read_citation_pairs``. Since the test labels of GLUE and CLUE are hidden, their development
    sets are the test sets here. The papers leave open how they split the data sets that come without a test set
    (FakeNews, arXiv, NYT, BBC).

    ``newsgroups`` is the variant of 20 Newsgroups, ``"stripped"``, ``"body"`` or ``"raw"``; the last two are part of
    the task's name. ``WIKIPEDIA_TASKS`` are made of the articles in ``folder``.
    """
    known = known_name(str(name))
    if known is None and folder is not None:
        raise ValueError(f"{unknown_task(str(name))} A folder of your own is a task itself: give it instead of a name.")
    if known is None and not Path(name).exists():
        refuse_missing_file(str(name))
        raise ValueError(f"{unknown_task(str(name))} Or give a file or a folder.")
    limits = {"train": max_train_examples, "test": max_test_examples}
    files = {option: value for option, value in own.items() if option in ("csv_separator", "encoding")}
    if known == "AAN" or (known is None and Path(name).is_dir() and has_citation_pairs(Path(name))):
        if known and folder is None:
            raise ValueError(f"AAN is not on the Hub: give its folder. {LONG_DOCUMENT_TASKS['AAN'].note}")
        return _pair_task(known or Path(name).name, Path(folder or name), limits, seed)
    if known in WIKIPEDIA_TASKS:
        if folder is None:
            raise ValueError(
                f"{known} is made of Wikipedia's articles: give a file or folder of them, with the section titles, as "
                f"--task_folders {known}=articles.jsonl."
            )
        articles = load_documents(str(folder), test_size=0, **files)["train"][own.get("text_column", "text")]
        return classification_task(known, wikipedia_splits(articles, known, seed), limits, seed)
    is_newsgroups = known_name(known or title_of(Path(name))) == "20News"
    prepare = partial(newsgroup_texts, kept=newsgroups) if is_newsgroups else None
    if known is None or (known == DOCUMENTATION and folder is None):
        task: EvaluationTask = load_evaluation_task(
            name,
            max_train_examples=max_train_examples,
            max_test_examples=max_test_examples,
            seed=seed,
            prepare=prepare,
            **own,
        )
    else:
        splits = load_task(folder, seed, validation_size=0, **files) if folder else _from_hub(known, seed)
        language = TASKS[known].language if known in TASKS else "en"
        task = classification_task(known, splits, limits, seed, prepare, language)
    return dataclasses.replace(task, name=f"{task.name}{NEWSGROUPS[newsgroups]}") if is_newsgroups else task


def _from_hub(name: str, seed: int) -> DatasetDict:
    if name in TASKS:
        return load_task(name, seed, validation_size=0)
    source = LONG_DOCUMENT_TASKS[name]
    if source.dataset is None:
        raise ValueError(f"{name} is not on the Hub: give its folder. {source.note}")
    logger.info(f"{name} is loaded from {source.dataset}. {source.note}")
    loaded = datasets.load_dataset(source.dataset)
    if source.prepare is not None:
        loaded = loaded.map(source.prepare, remove_columns=loaded["train"].column_names, desc=f"Preparing {name}")
    return load_labeled_examples(
        loaded, text_column=source.text_column, label_column=source.label_column, validation_size=0, seed=seed
    )


def _pair_task(name: str, folder: Path, limits: dict[str, int | None], seed: int) -> PairTask:
    task = read_citation_pairs(folder, name)
    train = [task.train[row] for row in draw(len(task.train), limits["train"], seed)]
    test = [task.test[row] for row in draw(len(task.test), limits["test"], seed)]
    return task.with_pairs(train, test)
