"""What a classifier computes of texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .passages import Passages


class Predictions(NamedTuple):
    """Output of a classifier for N texts, in their order."""

    logits: np.ndarray  # float32 (N, C); C is 0 without a classification head
    retrieval_embeddings: np.ndarray  # float32 (N, R)
    read_fraction: np.ndarray | None = None  # float64 (N,): the part of each text that was read; None: unknown
    passages: Passages | None = None  # None where each text has one embedding
