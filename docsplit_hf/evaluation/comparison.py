"""Compare systems on a user's texts: probes with few or all labels, and half-document retrieval without labels."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from scipy import sparse
from sklearn.preprocessing import normalize

from ..fitting.ensemble.report import ENSEMBLE, LARGEST_CLASS
from ..metrics.registry import rank_metrics, ranks_of_right
from ..pretraining.half_retrieval import ROWS_AT_ONCE, half_retrieval_metrics, half_texts
from ..reading.labeled_examples import load_labeled_examples
from ..reading.labels import has_several_labels, label_array, label_names_of, texts_of
from ..reading.load_documents import load_documents
from ..reading.package_documentation import DOCUMENTATION, load_package_documentation
from ..training.markdown import table
from .probes import LabeledFeatures, ensemble_predictions, largest_class_predictions, logistic_predictions
from .settings import PROTOCOLS, ComparisonSettings
from .systems import EncoderSystem, Features, System

logger = logging.getLogger(__name__)

TEST_FRACTION = 0.2
SHOWN = {"accuracy": "Acc", "macro_f1": "F1", "recall@1": "recall@1", "mrr": "MRR"}  # metrics, and their titles
SPREAD = "In %; ± is the standard deviation over the repeats. Probes are linear."


class Task(NamedTuple):
    """Texts to test on, and labeled texts to train on; without labels, ``train`` is None."""

    name: str
    test: Dataset
    train: Dataset | None = None


class Record(NamedTuple):
    """A measurement: the mean and the spread over records that differ by seed only are shown."""

    task: str
    protocol: str
    shots: int | None
    system: str
    seed: int
    metrics: dict[str, float]


def load_task(name: str, settings: ComparisonSettings, text_column: str, label_column: str, **options: str) -> Task:
    """Load a file, a folder or the documentation of packages; without a test set, a fifth is held out.

    If the only protocol is ``half_documents``, labels are not read.
    """
    title = Path(name.removesuffix(".gz")).stem
    if [*settings.protocol] == ["half_documents"] and name != DOCUMENTATION:
        rows = load_documents(name, test_size=0, **options)["train"]
        return Task(title, rows.rename_columns({text_column: "text"}))
    source = load_package_documentation() if name == DOCUMENTATION else name
    columns = {} if name == DOCUMENTATION else {"text_column": text_column, "label_column": label_column}
    splits = load_labeled_examples(source, validation_size=0, seed=settings.seed, **columns, **options)
    if "test" not in splits:
        splits = load_labeled_examples(
            source, validation_size=0, test_size=TEST_FRACTION, seed=settings.seed, **columns, **options
        )
    if has_several_labels(splits["train"]):
        raise ValueError(f"{name} has several labels per text, and only tasks with one label can be evaluated.")
    return Task(title, test=splits["test"], train=splits["train"])


def compare(systems: Sequence[System], tasks: Sequence[Task], settings: ComparisonSettings) -> Iterator[Record]:
    """Measure each system on each task; what is impossible is logged and left out.

    Args:
        systems: The systems.
        tasks: The tasks.
        settings: The protocols, and their repeats.

    Yields:
        The measurements.
    """
    for task in tasks:
        for system in systems:
            if task.train is not None and {"full", "few_shot"} & {*settings.protocol}:
                yield from _probe(system, task, settings)
            if "half_documents" in settings.protocol:
                first, second = half_texts(task.test["text"], settings.seed, show_progress=False)
                [both] = system.features([*first, *second])  # one list, as the system is fitted on it
                metrics = retrieval_metrics(both[: len(first)], both[len(first) :])
                yield Record(task.name, "half_documents", None, system.name, settings.seed, metrics)


def _probe(system: System, task: Task, settings: ComparisonSettings) -> Iterator[Record]:
    """Measure classifiers on a system's features: a linear one, the ensemble of an encoder, the largest class."""
    names = label_names_of(task.train)
    train_texts, _ = texts_of(task.train)
    test_texts, _ = texts_of(task.test)
    train, test = system.features(train_texts, test_texts)
    features = LabeledFeatures(
        train=train,
        train_labels=label_array(task.train, names, multi_label=False),
        test=test,
        test_labels=label_array(task.test, names, multi_label=False),
        train_inputs=train_texts,
        test_inputs=test_texts,
    )
    probes = {system.name: logistic_predictions, LARGEST_CLASS: largest_class_predictions}
    if isinstance(system, EncoderSystem):
        probes = {system.name: logistic_predictions, f"{system.name}, {ENSEMBLE}": ensemble_predictions}
    for protocol, shots, seed in _draws(features, task, settings):
        drawn = features if shots is None else features.draw(shots, seed, names)
        for name, predict in probes.items():
            yield Record(task.name, protocol, shots, name, seed, drawn.metrics(predict(drawn, seed)))


def _draws(
    features: LabeledFeatures, task: Task, settings: ComparisonSettings
) -> Iterator[tuple[str, int | None, int]]:
    """The protocol, the examples per class, and the seed of each draw of training examples."""
    if "full" in settings.protocol:
        yield "full", None, settings.seed
    if "few_shot" not in settings.protocol:
        return
    smallest = int(np.unique(features.train_labels, return_counts=True)[1].min())
    for shots in settings.shots:
        if shots > smallest:
            logger.warning("%d per class are left out on %s: its smallest class has %d.", shots, task.name, smallest)
            continue
        for seed in range(settings.seed, settings.seed + settings.repeats):
            yield "few_shot", shots, seed


def retrieval_metrics(first: Features, second: Features) -> dict[str, float]:
    """Recall and mean reciprocal rank of row i of the second halves, given row i of the first halves, by cosine."""
    if sparse.issparse(first):
        first = normalize(first)
        second = normalize(second)
        ranks = []
        for rows in torch.arange(first.shape[0]).split(ROWS_AT_ONCE):
            similarities = (first[rows.numpy()] @ second.T).toarray()
            ranks.append(ranks_of_right(torch.from_numpy(similarities), rows))
        metrics = rank_metrics(torch.cat(ranks))
    else:
        metrics = half_retrieval_metrics(torch.from_numpy(first), torch.from_numpy(second))
    return {name: metrics[name] for name in ("recall@1", "recall@10", "mrr")}


def tables(records: Sequence[Record]) -> str:
    """The records as tables in Markdown: a section for each protocol, a row for each system."""
    frame = pd.DataFrame([{**record._asdict(), **record.metrics} for record in records])
    sections = []
    for protocol, rows in frame.groupby("protocol", sort=False):
        metrics = [name for name in SHOWN if name in rows and rows[name].notna().any()]
        lines = []
        for (task, shots, system), of_system in rows.groupby(["task", "shots", "system"], sort=False, dropna=False):
            cells = [_cell(100 * of_system[name].mean(), 100 * of_system[name].std()) for name in metrics]
            lines.append((task, "all" if pd.isna(shots) else f"{shots:g}", system, *cells))
        header = ("Task", "Examples per class", "System", *(SHOWN[name] for name in metrics))
        sections.append(f"## {protocol}: {PROTOCOLS[protocol]}\n\n{SPREAD}\n\n{table(header, lines)}\n")
    return "\n".join(sections)


def _cell(mean: float, spread: float) -> str:
    """A mean in percent, with its standard deviation if there are repeats."""
    return f"{mean:.2f}" if np.isnan(spread) else f"{mean:.2f} ± {spread:.2f}"


def as_json(records: Sequence[Record]) -> str:
    """The records as JSON, one on each line."""
    lines = ",\n".join(json.dumps(record._asdict()) for record in records)
    return f"[\n{lines}\n]\n"
