"""Load the twelve data sets of the paper on nearest-neighbor classification, or a folder with the same columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docsplit_hf.reading.files.finding import refuse_mistyped_path
from docsplit_hf.reading.labeled_examples import load_labeled_examples

from ..evaluation.tasks import find_text_columns

if TYPE_CHECKING:
    from datasets import DatasetDict


@dataclass(frozen=True)
class Task:
    """Data set of the paper, with the training arguments of its table 3.

    ``knn_weight`` is lambda of equation 3. ``prepare`` converts a row on the Hub to the columns named here.
    """

    name: str
    config_name: str
    text_column: str
    text_pair_column: str | None
    knn_weight: float
    dataset: str
    language: str
    encoder: str
    batch_size: int
    learning_rate: float
    label_column: str = "label"
    train_split: str = "train"
    test_split: str = "validation"
    metric: str = "accuracy"  # of the paper's tables, by its name in docsplit_hf.metrics
    max_length: int = 128
    epochs: int = 3
    warmup_steps: int = 100
    prepare: Callable[[Mapping[str, Any]], dict[str, str]] | None = None

    def training_arguments(self) -> dict[str, int | float]:
        """Keyword arguments for the trainer, from Table 3; the batch size is that of a whole step."""
        return {
            "per_device_train_batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "num_train_epochs": self.epochs,
            "warmup_steps": self.warmup_steps,
        }


def mark_spans(row: Mapping[str, Any]) -> dict[str, str]:
    """Mark the ``_noun_`` and the ``[pronoun]`` of a row of CLUEWSC 2020 in its text, as in CLUE's own baseline."""
    text = row["text"]
    target = row["target"]
    noun = (target["span1_index"], target["span1_text"], "__")
    pronoun = (target["span2_index"], target["span2_text"], "[]")
    marked = ""
    end = 0
    for start, span, marks in sorted([noun, pronoun]):
        if not text.startswith(span, start):
            raise ValueError(f"{target} does not fit the text {text!r}: check the indices.")
        if start < end:
            raise ValueError(f"The spans of {target} overlap: leave the row out.")
        marked += text[end:start] + marks[0] + span + marks[1]
        end = start + len(span)
    return {"text": marked + text[end:]}


def join_keywords(row: Mapping[str, Any]) -> dict[str, str]:
    """Make a pair of texts of a row of CSL: an abstract, and candidate keywords joined by ``；``."""
    return {"text": row["abst"], "text_pair": "；".join(row["keyword"])}


_chinese = partial(
    Task, dataset="clue/clue", language="zh", encoder="hfl/chinese-macbert-large", batch_size=64, learning_rate=2e-5
)
_english = partial(
    Task, dataset="nyu-mll/glue", language="en", encoder="FacebookAI/roberta-large", batch_size=32, learning_rate=1e-5
)
TASKS = {
    task.name: task
    for task in (
        _chinese("OCNLI", "ocnli", "sentence1", "sentence2", 0.2, max_length=150),
        _chinese("TNEWS", "tnews", "sentence", None, 0.8, max_length=200, epochs=5, warmup_steps=300),
        _chinese("AFQMC", "afqmc", "sentence1", "sentence2", 0.0),
        _chinese("IFLYTEK", "iflytek", "sentence", None, 0.1, max_length=512),
        _chinese("WSC", "cluewsc2020", "text", None, 0.1, max_length=200, warmup_steps=300, prepare=mark_spans),
        _chinese("CSL", "csl", "text", "text_pair", 0.2, max_length=512, warmup_steps=300, prepare=join_keywords),
        _english("CoLA", "cola", "sentence", None, 0.3, metric="matthews_correlation"),
        _english("SST-2", "sst2", "sentence", None, 0.0),
        _english("MRPC", "mrpc", "sentence1", "sentence2", 0.0),
        _english("QQP", "qqp", "question1", "question2", 0.5),
        # The paper gives one figure for both sets. They have nearly equal size, so the joint figure is the mean.
        _english("MNLI", "mnli", "premise", "hypothesis", 0.0, test_split="validation_matched+validation_mismatched"),
        _english("QNLI", "qnli", "question", "sentence", 0.2),
    )
}


def load_task(
    name_or_folder: str | Path,
    seed: int = 0,
    validation_size: float = 0.1,
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> DatasetDict:
    """Load a data set of the paper by its name in ``TASKS``, or a folder or file with the same columns.

    The paper tunes k, T and lambda on the development sets that it reports. Here a development set is the test set, and
    the validation set is held out of the training set.
    """
    task = find_task(name_or_folder)
    if task is not None:
        return _load_from_hub(task, seed, validation_size, csv_separator, encoding)
    if not Path(name_or_folder).exists():
        refuse_mistyped_path(str(name_or_folder))
        near = {name.lower(): name for name in TASKS}
        near = [near[name] for name in difflib.get_close_matches(str(name_or_folder).lower(), near, n=1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no task {str(name_or_folder)!r}.{hint} Give a folder, or one of {sorted(TASKS)}.")
    text_column, text_pair_column = find_text_columns(Path(name_or_folder), csv_separator, encoding)
    return load_labeled_examples(
        name_or_folder,
        text_column=text_column,
        text_pair_column=text_pair_column,
        csv_separator=csv_separator,
        encoding=encoding,
        validation_size=validation_size,
        seed=seed,
    )


def find_task(name: str | Path) -> Task | None:
    """The task of that name in upper or lower case; None for anything else, such as a folder."""
    return {known.lower(): task for known, task in TASKS.items()}.get(str(name).lower())


def _load_from_hub(
    task: Task, seed: int, validation_size: float, csv_separator: str | None, encoding: str | None
) -> DatasetDict:
    import datasets

    loaded = datasets.load_dataset(task.dataset, task.config_name)
    # Another split would be taken for validation, and ``prepare`` might fail on its rows.
    splits = {name: loaded[name] for name in (task.train_split, *task.test_split.split("+"))}
    if task.prepare is not None:
        splits = {name: split.map(task.prepare, desc=f"Preparing {name}") for name, split in splits.items()}
    return load_labeled_examples(
        datasets.DatasetDict(splits),
        text_column=task.text_column,
        text_pair_column=task.text_pair_column,
        label_column=task.label_column,
        train_split=task.train_split,
        test_split=task.test_split,
        validation_size=validation_size,
        seed=seed,
        csv_separator=csv_separator,
        encoding=encoding,
    )
