"""Rows to hold out of a training set, to stop early or to choose settings on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np


def hold_out(labels: np.ndarray, share: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Split rows at random, the same share of every class.

    Of a class with at least 2 rows at least one is held out and one kept; a class with one row keeps it. So, unlike
    with ``train_test_split(stratify=...)``, there is no training set that cannot be split, and no class that would not
    be trained on.

    Args:
        labels: ``(N,)``.
        share: What to hold out of each class, above 0 and below 1.
        seed: Decides which rows.

    Returns:
        The rows to keep and the rows held out, ascending. None are held out if all classes have one row.

    Example:

        >>> kept, held_out = hold_out(np.array([0, 0, 0, 0, 1, 1, 2]), share=0.25)
        >>> np.bincount(np.array([0, 0, 0, 0, 1, 1, 2])[held_out])
        array([1, 1])
    """
    labels = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(labels))
    held_out: list[int] = []
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        if len(rows) > 1:
            held_out.extend(rows[: min(max(round(share * len(rows)), 1), len(rows) - 1)])
    is_held_out = np.zeros(len(labels), dtype=bool)
    is_held_out[held_out] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def hold_out_groups(groups: Sequence[Hashable], share: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Split rows at random such that no group is on both sides.

    Args:
        groups: ``(N,)``, the group of each row.
        share: The share of the groups to hold out: at least one of them, and at most all but one.
        seed: Decides which.

    Returns:
        The rows to keep and the rows held out, ascending. None are held out if there is one group only.

    Example:

        >>> hold_out_groups(["a", "a", "b", "b", "b"], share=0.5)
        (array([2, 3, 4]), array([0, 1]))
    """
    numbers: dict[Hashable, int] = {}
    group = np.array([numbers.setdefault(name, len(numbers)) for name in groups], dtype=np.int64)
    count = min(max(round(share * len(numbers)), 1), len(numbers) - 1)
    chosen = np.random.default_rng(seed).permutation(len(numbers))[: max(count, 0)]
    is_held_out = np.isin(group, chosen)
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
