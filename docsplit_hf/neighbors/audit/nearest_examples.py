"""The nearest other examples of each example: evidence for its label, and how near it is to anything."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..experts.soft_labels import nearest_rows

NEAREST = 10
BLOCK = 16_384


class Nearest(NamedTuple):
    """Of N examples, nearest first."""

    rows: np.ndarray  # int64 (N, k), -1 where an index found too few
    cosines: np.ndarray  # (N, k), 0 there

    def agreeing(self, values: np.ndarray, rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """How many of the nearest of some rows have the value ``(N,)`` that is wanted of each row ``(m,)``."""
        return ((values[self.rows[rows]] == wanted[:, None]) & (self.rows[rows] >= 0)).sum(1)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """How many nearest some rows have; 1 for none, to divide by."""
        return np.maximum((self.rows[rows] >= 0).sum(1), 1)

    def closeness(self) -> np.ndarray:
        """The mean cosine of the nearest, ``(N,)``."""
        return self.cosines.sum(1, dtype=np.float64) / self.counts(np.arange(len(self.rows)))


def nearest_examples(vectors: np.ndarray, k: int = NEAREST) -> Nearest:
    """The k nearest others by cosine; ``vectors`` are ``(N, D)`` of norm 1. Beyond 20,000 approximate."""
    count = len(vectors)
    found = nearest_rows(vectors, min(k, count - 1) + 1)
    found[found == np.arange(count)[:, None]] = -1
    # An index may have missed the example itself: the others come first, in their order, and the last one goes.
    rows = np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), 1)[:, :-1]
    cosines = np.zeros(rows.shape, np.float32)
    for start in range(0, count, BLOCK):
        part = slice(start, start + BLOCK)
        cosines[part] = np.einsum("nd,nkd->nk", vectors[part], vectors[rows[part]])
    return Nearest(rows, np.where(rows < 0, 0, cosines))
