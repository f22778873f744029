"""Outliers: examples that are near no others."""

from __future__ import annotations

import numpy as np


def outliers(closeness: np.ndarray) -> np.ndarray:
    """The rows that lie below the first quartile by more than 1.5 distances of the quartiles, the farthest first.

    ``closeness`` ``(N,)``: the mean cosine to the nearest others. This is Tukey's fence: of an encoder whose cosines
    are all large it asks for no other level.
    """
    first, third = np.quantile(closeness, [0.25, 0.75])
    found = np.flatnonzero(closeness < first - 1.5 * (third - first))
    return found[np.argsort(closeness[found], kind="stable")]
