"""The texts and labels of a labeled data set, in the form that a datastore keeps them in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from .labeled_rows import label_name, number_or_name
from .sources import as_dataset

if TYPE_CHECKING:
    from datasets import Dataset


def texts_of(dataset: Dataset) -> tuple[list[str], list[str] | None]:
    """The column ``text``, and ``text_pair`` or None."""
    if "text" not in dataset.column_names:
        raise ValueError(f"There is no column 'text' among {dataset.column_names}: load with load_labeled_examples.")
    return list(dataset["text"]), list(dataset["text_pair"]) if "text_pair" in dataset.column_names else None


def label_names_of(dataset: Dataset) -> list[str]:
    """The names of the labels in the order of their numbers, of a ``ClassLabel`` or of lists of it."""
    feature = dataset.features.get("label")
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        raise ValueError(
            f"The column 'label' must hold ClassLabel or lists of it, got {feature}: load with load_labeled_examples, "
            "or cast it with dataset.cast_column('label', ClassLabel(names=[...]))."
        )
    return list(names)


def is_multi_label(dataset: Dataset) -> bool:
    """Whether the column ``label`` holds lists."""
    return hasattr(dataset.features["label"], "feature")


def with_class_labels(table: Any) -> Dataset:
    """A table in memory with ``text`` and ``label`` as a data set, its labels by name as a ``ClassLabel``."""
    import datasets
    import pandas as pd

    data = as_dataset(pd.DataFrame(table) if isinstance(table, dict | list) else table)
    if missing := {"text", "label"} - set(data.column_names):
        raise ValueError(f"There is no column {min(missing)!r} among {data.column_names}: rename the one that it is.")
    feature = data.features["label"]
    if hasattr(getattr(feature, "feature", feature), "names"):
        return data
    given = data.with_format(None)["label"][:]
    rows = [[label_name(label) for label in (labels if isinstance(labels, list) else [labels])] for labels in given]
    if (row := next((row for row, names in enumerate(rows) if None in names), None)) is not None:
        raise ValueError(f"Row {row} has no label ({given[row]!r}): leave it out.")
    label = datasets.ClassLabel(names=sorted(set(chain(*rows)), key=number_or_name))
    numbers, several = [label.str2int(names) for names in rows], hasattr(feature, "feature")
    column = (numbers, datasets.List(label)) if several else ([number for (number,) in numbers], label)
    return data.remove_columns("label").add_column("label", column[0], feature=column[1])


def labels_by_name(dataset: Dataset) -> list[str] | list[list[str]]:
    """The names of each row's label, or of its labels."""
    names, labels = label_names_of(dataset), dataset.with_format(None)["label"][:]
    return [[names[i] for i in given] if isinstance(given, list) else names[given] for given in labels]


def label_array(dataset: Dataset, label_names: Sequence[str], multi_label: bool) -> np.ndarray:
    """The labels of examples, numbered by ``label_names`` and not as in the data set.

    int64 ``(N,)``, or with ``multi_label`` bool ``(N, C)``: what a datastore keeps, and what metrics take.
    """
    number = {name: i for i, name in enumerate(label_names)}
    names, labels = label_names_of(dataset), dataset.with_format(None)["label"][:]
    result = np.zeros((len(labels), len(number)), bool) if multi_label else np.zeros(len(labels), np.int64)
    for row, given in enumerate(labels):
        for label in given if multi_label else [given]:
            if label is None or not 0 <= label < len(names):
                raise ValueError(
                    f"The label of row {row} is {label}, which is none of 0 to {len(names) - 1} (-1 stands for a "
                    "label that is kept secret): load_labeled_examples drops such rows."
                )
            if names[label] not in number:
                raise ValueError(f"The label {names[label]!r} is none of those known here: {', '.join(label_names)}.")
            if multi_label:
                result[row, number[names[label]]] = True
            else:
                result[row] = number[names[label]]
    return result
