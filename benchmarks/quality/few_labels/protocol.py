"""The inputs of all systems: a pool of documents, a test set, and the draws of labeled examples."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from docsplit_hf.metrics.registry import metric_class
from docsplit_hf.reading.labels import texts_of
from experiments.tasks.paper_tasks import load_task

METRICS = ("macro_f1", "accuracy", "log_loss", "expected_calibration_error")
TEST_SIZE = 1000
FEWEST_DOCUMENTS = 8  # of a class in the pool; rarer classes are too small to draw 5 labels and measure
Text = str | dict[str, str]  # a pair is {"text": ..., "text_pair": ...}, as for pipeline("docsplit-knn")


@dataclass(frozen=True)
class FewLabels:
    """A task; labels are indexes into ``names``, and descriptions of the classes serve as examples without labels."""

    name: str
    names: list[str]
    descriptions: list[str]
    pool: list[Text]
    pool_labels: np.ndarray
    test: list[Text]
    test_labels: np.ndarray


@dataclass(frozen=True)
class Answer:
    """Probabilities (N, C) of the test texts, and their cost; on a shared machine compare the processor's seconds."""

    probabilities: np.ndarray
    fit_seconds: float
    fit_cpu_seconds: float
    embedding_seconds: float = 0.0  # for the texts that are fitted on, if embeddings are made once and kept
    documents_per_second: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def load_few_labels(
    folder: str | Path, pool_size: int = 2500, test_size: int = TEST_SIZE, fewest: int = FEWEST_DOCUMENTS
) -> FewLabels:
    """Load a task from a folder of jsonl with train and test, or one of the paper's by its name.

    Classes with fewer documents in the pool than ``fewest`` are left out.
    """
    splits = load_task(folder, validation_size=0)
    pool = _sample(splits["train"], pool_size)
    test = _sample(splits["test"], test_size)
    all_names = pool.features["label"].names
    counts = np.bincount(pool["label"], minlength=len(all_names))
    kept = np.flatnonzero(counts >= fewest)
    if len(kept) < 2:
        raise ValueError(f"{folder}: fewer than two classes have {fewest} documents. Give a larger pool.")
    pool = pool.select(np.flatnonzero(np.isin(pool["label"], kept)))
    test = test.select(np.flatnonzero(np.isin(test["label"], kept)))
    names = [all_names[label] for label in kept]
    return FewLabels(
        name=Path(folder).name,
        names=names,
        descriptions=_describe(Path(folder) / "labels.json", names),
        pool=_texts_or_pairs(pool),
        pool_labels=np.searchsorted(kept, pool["label"]),
        test=_texts_or_pairs(test),
        test_labels=np.searchsorted(kept, test["label"]),
    )


def draw(labels: np.ndarray, per_label: int, seed: int) -> np.ndarray:
    """Rows of ``per_label`` random examples of each class, or all of a smaller class."""
    rows = defaultdict(list)
    for row in np.random.default_rng(seed).permutation(len(labels)).tolist():
        rows[labels[row]].append(row)
    return np.array([row for label in sorted(rows) for row in rows[label][:per_label]], dtype=int)


def rest(count: int, rows: np.ndarray) -> np.ndarray:
    """The rows of the pool that were not drawn: the unlabeled documents."""
    return np.setdiff1d(np.arange(count), rows)


def as_one_text(texts: list[Text]) -> list[str]:
    """Pairs joined, for systems of single texts."""
    return [text if isinstance(text, str) else f"{text['text']}\n{text['text_pair']}" for text in texts]


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The metrics of probabilities over all classes."""
    found = {}
    for metric in METRICS:
        found |= metric_class(metric)().compute(predictions=probabilities, references=labels)
    return {metric: found[metric] for metric in METRICS}


def _texts_or_pairs(split: Dataset) -> list[Text]:
    texts, pairs = texts_of(split)
    if pairs is None:
        return list(texts)
    return [{"text": text, "text_pair": pair} for text, pair in zip(texts, pairs, strict=True)]


def _sample(split: Dataset, size: int) -> Dataset:
    return split.select(np.random.default_rng(0).permutation(len(split))[:size])


def _describe(file: Path, names: list[str]) -> list[str]:
    given = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return [given.get(name, name.translate(str.maketrans("._-/", "    "))) for name in names]
