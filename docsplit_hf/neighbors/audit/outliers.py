"""Outliers: examples that are near no others."""

from __future__ import annotations

import numpy as np


def outliers(closeness: np.ndarray) -> np.ndarray:
    """The rows that lie below the first quartile by more than the distance of the quartiles, the farthest first.

    ``closeness`` ``(N,)``: the mean cosine to the nearest others. Tukey's own fence, of 1.5 distances, finds next to
    nothing: closeness has a bound, and its distribution no long tail there.
    """
    first, third = np.quantile(closeness, [0.25, 0.75])
    found = np.flatnonzero(closeness < first - (third - first))
    return found[np.argsort(closeness[found], kind="stable")]
