"""Folds of the examples: each is answered by experts that never saw it, nor a copy of it."""

from __future__ import annotations

import numpy as np

FOLDS, FEWER_FOLDS, MANY_EXAMPLES = 5, 3, 2_000


def assign_folds(labels: np.ndarray, groups: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """The fold of each example, int64 ``(n,)``, or -1 for one that is always learned from; the same each time.

    ``labels`` are ``(n,)``, or ``(n, C)`` where there may be several; examples of equal ``groups`` (copies) are in one
    fold. The only example of a label stays with those that are learned from, and so does what is not ``held_out``.
    """
    rng = np.random.default_rng(0)
    count = FOLDS if len(groups) <= MANY_EXAMPLES else FEWER_FOLDS
    folds = np.full(len(groups), -1)
    strata = labels if labels.ndim == 1 else np.zeros(len(groups), np.int64)
    for stratum in np.unique(strata):
        members = np.flatnonzero((strata == stratum) & held_out)
        distinct = rng.permutation(np.unique(groups[members]))
        is_only = len(np.unique(groups[strata == stratum])) == 1
        start = rng.integers(count)
        for i, group in enumerate(distinct if not is_only else ()):
            folds[members[groups[members] == group]] = (start + i) % count
    return folds
