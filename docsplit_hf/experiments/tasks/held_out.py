"""Rows to hold out of a training set, to stop early or to choose settings on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np


def hold_out_of_each_class(
    texts: Sequence[Hashable], labels: np.ndarray, share: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows at random, the same share of the different texts of every class. Equal texts stay together.

    Of a class with at least 2 different texts at least one is held out and one kept; a class with one text keeps it.
    (Fewer are held out where a text is in several classes.) So, unlike with ``train_test_split(stratify=...)``, there
    is no training set that cannot be split, and no class that would not be trained on.

    Args:
        texts: ``(N,)``, or whatever is equal for equal rows.
        labels: ``(N,)``.
        share: What to hold out of each class, above 0 and below 1.
        seed: Decides which rows.

    Returns:
        The rows to keep and the rows held out, ascending. None are held out if all classes have one text.

    Example:

        >>> kept, held_out = hold_out_of_each_class("aabbcd", np.array([0, 0, 0, 0, 1, 1]), share=0.5)
        >>> len(held_out), set("aabbcd"[row] for row in kept) & set("aabbcd"[row] for row in held_out)
        (3, set())
    """
    labels = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(labels))
    labels_of: dict[Hashable, set[int]] = {}
    for text, label in zip(texts, labels.tolist(), strict=True):
        labels_of.setdefault(text, set()).add(label)
    in_class = Counter(label for several in labels_of.values() for label in several)
    left = {label: min(max(round(share * count), 1), count - 1) for label, count in in_class.items()}
    chosen = set()
    for row in order:
        text = texts[row]
        if text not in chosen and all(left[label] for label in labels_of[text]):
            chosen.add(text)
            for label in labels_of[text]:
                left[label] -= 1
    is_held_out = np.fromiter((text in chosen for text in texts), dtype=bool, count=len(labels))
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
