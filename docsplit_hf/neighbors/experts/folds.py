"""Folds of the examples: each is answered by experts that never saw it, nor a copy of it."""

from __future__ import annotations

import numpy as np

FOLDS, FEWER_FOLDS, MANY_EXAMPLES = 5, 3, 2_000


def assign_folds(labels: np.ndarray, groups: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """The fold of each example, int64 ``(n,)``, or -1 for one that is always learned from; the same each time.

    ``labels`` are ``(n,)``, or ``(n, C)`` where there may be several; examples of equal ``groups`` (copies) are in one
    fold. The only example of a label stays with those that are learned from, unless a text may have several labels;
    and so does what is not ``held_out``.
    """
    rng = np.random.default_rng(0)
    count = FOLDS if len(groups) <= MANY_EXAMPLES else FEWER_FOLDS
    distinct, groups = np.unique(groups, return_inverse=True)
    folds = np.full(len(distinct), -1)  # of each group
    strata = labels if labels.ndim == 1 else np.zeros(len(groups), np.int64)
    members = [np.unique(groups[strata == stratum]) for stratum in np.unique(strata)]
    always = np.unique(groups[~held_out])
    for stratum in members:
        asked = rng.permutation(np.setdiff1d(stratum, always))
        start = rng.integers(count)
        if len(stratum) > 1:  # a copy with another label has its fold already
            folds[asked] = np.where(folds[asked] < 0, (start + np.arange(len(asked))) % count, folds[asked])
    for stratum in members:
        if len(np.unique(folds[stratum])) == 1:  # nothing of the label would be left to learn from
            folds[stratum] = -1
    used = np.unique(folds[folds >= 0])
    return np.where(folds < 0, -1, np.searchsorted(used, folds))[groups]
