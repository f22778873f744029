"""What all systems are given: a pool of documents, a test set, and the draws of the labeled examples."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from docsplit_hf.metrics.registry import metric_class
from docsplit_hf.text.labels import texts_of
from docsplit_hf.text.paper_tasks import load_task

METRICS = ("macro_f1", "accuracy", "log_loss", "expected_calibration_error")
TEST_SIZE = 1000
FEWEST_DOCUMENTS = 8  # of a class in the pool: rarer ones could not be learned from 5 labels and measured
Text = str | dict[str, str]  # a pair is {"text": ..., "text_pair": ...}, as pipeline("docsplit-knn") takes it


@dataclass(frozen=True)
class FewLabels:
    """A task: labels are numbers of ``names``, and a description of each class stands in where there are no labels."""

    name: str
    names: list[str]
    descriptions: list[str]
    pool: list[Text]
    pool_labels: np.ndarray
    test: list[Text]
    test_labels: np.ndarray


@dataclass(frozen=True)
class Answer:
    """Probabilities (N, C) of the test texts, and what they took; on a shared machine the processor's seconds count."""

    probabilities: np.ndarray
    fit_seconds: float
    fit_cpu_seconds: float
    embedding_seconds: float = 0.0  # of what is fitted on, where embeddings are made once and kept
    documents_per_second: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def load_few_labels(
    folder: str | Path, pool_size: int = 2500, test_size: int = TEST_SIZE, fewest: int = FEWEST_DOCUMENTS
) -> FewLabels:
    """A task from a folder of jsonl with train and test, or one of the paper's by its name.

    Classes with fewer documents in the pool than ``fewest`` are left out.
    """
    splits = load_task(folder, validation_size=0)
    pool, test = _sample(splits["train"], pool_size), _sample(splits["test"], test_size)
    counts = np.bincount(pool["label"], minlength=len(pool.features["label"].names))
    kept = np.flatnonzero(counts >= fewest)
    if len(kept) < 2:
        raise ValueError(f"{folder}: fewer than two classes have {fewest} documents. Give a larger pool.")
    parts = []
    for split in (pool, test):
        split = split.select(np.flatnonzero(np.isin(split["label"], kept)))
        texts, pairs = texts_of(split)
        parts.append(
            list(texts) if pairs is None else [{"text": a, "text_pair": b} for a, b in zip(texts, pairs, strict=True)]
        )
        parts.append(np.searchsorted(kept, split["label"]))
    names = [pool.features["label"].names[label] for label in kept]
    return FewLabels(Path(folder).name, names, _describe(Path(folder) / "labels.json", names), *parts)


def draw(labels: np.ndarray, per_label: int, seed: int) -> np.ndarray:
    """Rows of so many random examples of each class, or all that it has."""
    rows = defaultdict(list)
    for row in np.random.default_rng(seed).permutation(len(labels)).tolist():
        rows[labels[row]].append(row)
    return np.array([row for label in sorted(rows) for row in rows[label][:per_label]], dtype=int)


def rest(count: int, rows: np.ndarray) -> np.ndarray:
    """The rows of the pool that were not drawn: documents without a label."""
    return np.setdiff1d(np.arange(count), rows)


def as_one_text(texts: list[Text]) -> list[str]:
    """Pairs joined, for systems that know single texts only."""
    return [text if isinstance(text, str) else f"{text['text']}\n{text['text_pair']}" for text in texts]


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The metrics of probabilities over all classes."""
    return {m: metric_class(m)().compute(predictions=probabilities, references=labels)[m] for m in METRICS}


def _sample(split: Dataset, size: int) -> Dataset:
    return split.select(np.random.default_rng(0).permutation(len(split))[:size])


def _describe(file: Path, names: list[str]) -> list[str]:
    given = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return [given.get(name, name.translate(str.maketrans("._-/", "    "))) for name in names]
