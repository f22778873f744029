"""Rows to hold out of a training set: a share of the different texts of each class, or whole groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd


def hold_out_of_each_class(
    texts: Sequence[Hashable], labels: np.ndarray, share: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The rows to keep and those to hold out, ascending: a share of the different texts of every class.

    Equal texts stay together. Of a class with at least 2 different texts one at least is held out (fewer where a text
    is in several classes) and one kept; a class with one text keeps it. So no training set cannot be split, unlike with
    scikit-learn, and every class is tested on, unlike with ``text.holding_out.hold_out``, which goes by rows.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    labels_of: dict[Hashable, set[int]] = {}
    for text, label in zip(texts, np.asarray(labels).tolist(), strict=True):
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


def hold_out_groups(groups: Sequence[Hashable], share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to keep and those to hold out, ascending: a share of the groups, one at least, but never the last."""
    number, distinct = pd.factorize(np.array([*groups, None], dtype=object)[:-1])  # bytes would lose zeros at their end
    count = min(max(round(share * len(distinct)), 1), len(distinct) - 1)
    is_held_out = np.isin(number, np.random.default_rng(seed).permutation(len(distinct))[:count])
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
