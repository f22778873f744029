"""Passages: several embeddings for each text, and where in the text each stands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Passages(NamedTuple):
    """The embeddings of the passages of N texts, those of a text together and in order."""

    embeddings: np.ndarray  # float32 (P, D)
    counts: np.ndarray  # int64 (N,): passages per text, at least 1
    spans: np.ndarray  # int64 (P, 2): where each begins and ends in its text, in characters
