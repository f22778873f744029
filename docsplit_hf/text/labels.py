"""The texts and labels of a labeled data set, in the form that a datastore keeps them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset


def texts_of(dataset: Dataset) -> tuple[list[str], list[str] | None]:
    """The texts of labeled examples, and the texts paired with them.

    Args:
        dataset: With the column ``text``, and maybe ``text_pair``.

    Returns:
        The texts, and the pairs or None.

    Raises:
        ValueError: If there is no column ``text``.

    Example:

        >>> from datasets import Dataset
        >>> texts_of(Dataset.from_dict({"text": ["a text"], "label": [0]}))
        (['a text'], None)
    """
    if "text" not in dataset.column_names:
        raise ValueError(f"There is no column 'text' among {dataset.column_names}: load with load_labeled_examples.")
    return list(dataset["text"]), list(dataset["text_pair"]) if "text_pair" in dataset.column_names else None


def label_names_of(dataset: Dataset) -> list[str]:
    """The names of the labels of labeled examples, in the order of their numbers.

    Args:
        dataset: With the column ``label`` of ``ClassLabel``, or of lists of it.

    Returns:
        The names.

    Raises:
        ValueError: If there is no such column.

    Example:

        >>> from datasets import ClassLabel, Dataset
        >>> data = Dataset.from_dict({"text": ["a text"], "label": [0]})
        >>> label_names_of(data.cast_column("label", ClassLabel(names=["fruit", "mineral"])))
        ['fruit', 'mineral']
    """
    feature = dataset.features.get("label")
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        raise ValueError(
            f"The column 'label' must hold ClassLabel or lists of it, got {feature}: load with load_labeled_examples, "
            "or cast it with dataset.cast_column('label', ClassLabel(names=[...]))."
        )
    return list(names)


def has_several_labels(dataset: Dataset) -> bool:
    """Whether the examples may have several labels each.

    Args:
        dataset: With the column ``label``.

    Returns:
        True if the column holds lists.
    """
    return hasattr(dataset.features["label"], "feature")


def label_array(dataset: Dataset, label_names: tuple[str, ...] | list[str], multi_label: bool) -> np.ndarray:
    """The labels of examples, numbered as in a datastore (or a classifier) instead of as in the data set.

    Args:
        dataset: With the column ``label`` of ``ClassLabel``, or of lists of it.
        label_names: The names in the order that is wanted.
        multi_label: Whether the result has several labels a row.

    Returns:
        int64 ``(N,)``, or bool ``(N, C)``.

    Raises:
        ValueError: If a label has no number there.
    """
    number = {name: i for i, name in enumerate(label_names)}
    names, labels = label_names_of(dataset), dataset.with_format(None)["label"][:]
    order = np.array([number.get(name, -1) for name in names])
    for row, given in enumerate(labels):
        for label in given if multi_label else [given]:
            if label is None or not 0 <= label < len(names):
                raise ValueError(
                    f"The label of row {row} is {label}, which is none of 0 to {len(names) - 1} (-1 stands for a "
                    "label that is kept secret): load_labeled_examples drops such rows."
                )
            if names[label] not in number:
                raise ValueError(f"The label {names[label]!r} is none of those known here: {', '.join(label_names)}.")
    if not multi_label:
        return order[np.array(labels, dtype=np.int64)]
    result = np.zeros((len(labels), len(label_names)), dtype=bool)
    for row, numbers in zip(result, labels, strict=True):
        row[order[np.array(numbers, dtype=np.int64)]] = True
    return result
