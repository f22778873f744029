"""How often each label is among all texts, which examples, drawn label by label, do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

ClassProportions = Literal["estimated", "uniform"] | Mapping[str, float]
ALIKE = 0.9  # of as many examples as any label has: copies are kept once
LEAST_PROPORTION = 1e-4  # of a label that somebody says is never there: an example of it may be


def smoothed(proportions: np.ndarray) -> np.ndarray:
    """Half way to equal proportions, as an estimate from few labels may be far off: ``(p + 1 / C) / 2``."""
    return (proportions + 1 / len(proportions)) / 2


def given_proportions(wanted: ClassProportions, names: Sequence[str]) -> np.ndarray | None:
    """The proportions ``(C,)`` of the labels ``names`` where they are given; None where they are to be estimated."""
    if wanted == "estimated":
        return None
    if wanted == "uniform":
        return np.full(len(names), 1 / len(names))
    if not isinstance(wanted, Mapping):
        raise ValueError(f"class_proportions must be 'estimated', 'uniform' or a number by label, got {wanted!r}.")
    if missing := [name for name in names if name not in wanted]:
        raise ValueError(f"class_proportions says nothing of {missing[0]!r}: give a number for each label.")
    values = np.array([wanted[name] for name in names], dtype=np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
        raise ValueError(f"class_proportions must be numbers from 0 of which one is larger, got {dict(wanted)!r}.")
    values = np.maximum(values / values.sum(), LEAST_PROPORTION)
    return values / values.sum()


def log_shift(proportions: np.ndarray, targets: np.ndarray, are_estimated: bool) -> np.ndarray:
    """What to add to logits that were learned from examples ``targets`` ``(n, C)``: ``log p(y) - log q(y)``, ``(C,)``.

    p are the proportions among all texts, q those among the examples (Saerens et al. 2002). Where p is an estimate,
    both are smoothed, and it is used only for examples that were drawn label by label: where half of the labels have
    nearly as many as any. Others are a sample of the texts, or were chosen as hard ones, which misleads the estimate.
    """
    counts = targets.sum(0, dtype=np.float64)
    shares = counts / len(targets)
    if are_estimated and np.median(counts) < ALIKE * counts.max():
        return np.zeros(len(shares))
    if are_estimated:
        return np.log(smoothed(proportions)) - np.log(smoothed(shares))
    return np.log(proportions) - np.log(np.maximum(shares, 1 / (2 * len(targets))))
