"""The labels of rows as numbers of their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def is_multi_label(labels: Sequence[Any]) -> bool:
    """Whether the first of some labels is a list, tuple, set or array."""
    first = next(iter(labels), None)
    return isinstance(first, (list, tuple, set, frozenset)) or np.ndim(first) > 0


def encode_labels(
    labels: Iterable[Any], label_names: tuple[str, ...], multi_label: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as int64 ``(N,)``, or bool ``(N, C)``, and the C names: those given, and new ones after them."""
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    known = len(label_names)
    numbers = {name: i for i, name in enumerate(label_names)}

    def number(label: Any, row: int) -> int:
        if isinstance(label, str):
            return numbers.setdefault(label, len(numbers))
        if not isinstance(label, (int, np.integer)) or isinstance(label, bool):
            expected = "a list of names or numbers" if multi_label else "a name or a number"
            raise ValueError(f"The label of row {row} is {label!r}: pass {expected}.")
        if not 0 <= label < known:
            raise ValueError(f"The label of row {row} is {label}, but there are {known} labels: {list(label_names)}.")
        return int(label)

    if not multi_label:
        encoded = np.fromiter((number(label, row) for row, label in enumerate(labels)), np.int64, len(labels))
        return encoded, tuple(numbers)
    rows, columns = [], []
    for row, several in enumerate(labels):
        if not isinstance(several, (list, tuple, set, frozenset, np.ndarray)):
            raise ValueError(f"The labels of row {row} are {several!r}: pass a list, as rows have several labels here.")
        found = [number(label, row) for label in several]
        if len(set(found)) < len(found):
            raise ValueError(
                f"The labels of row {row} name one twice: {several!r}. Pass the labels that it has, not a vector of 0 "
                "and 1."
            )
        rows += [row] * len(found)
        columns += found
    encoded = np.zeros((len(labels), len(numbers)), dtype=bool)
    encoded[rows, columns] = True
    return encoded, tuple(numbers)


def encode_known_labels(labels: Iterable[Any], label_names: tuple[str, ...], multi_label: bool) -> np.ndarray:
    """As ``encode_labels``, but a label that is new is an error."""
    encoded, names = encode_labels(labels, label_names, multi_label)
    if new := names[len(label_names) :]:
        raise ValueError(f"The datastore has no label {new[0]!r}, only {', '.join(label_names) or 'none'}.")
    return encoded


def rename_labels(
    labels: np.ndarray, label_names: tuple[str, ...], others: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Encoded labels numbered by other names, and these: names that are not among them come at the end."""
    names = (*others, *(name for name in label_names if name not in others))
    numbers = {name: i for i, name in enumerate(names)}
    order = np.array([numbers[name] for name in label_names], dtype=np.int64)
    if labels.ndim == 1:
        return order[labels], names
    renamed = np.zeros((len(labels), len(names)), dtype=bool)
    renamed[:, order] = labels
    return renamed, names
