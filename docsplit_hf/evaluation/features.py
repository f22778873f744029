"""Features of texts, dense or sparse, and what must hold for them before anything is measured on them."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from ...models.inference.passages import Passages
from ...neighbors.store.keys.key_matrix import as_matrix, check_finite

Features = np.ndarray | sparse.csr_matrix  # (N, D), or (N,) of objects, which are (p, D)


def check_features(features: Features, what: str, labels: np.ndarray | None = None) -> Features:
    """The features as float32 if dense, in the CSR format if sparse; refuses what would be measured as a bad system."""
    if sparse.issparse(features):
        features = features.tocsr()
        wrong = np.flatnonzero(~np.isfinite(features.data))
        if len(wrong):
            row = int(np.searchsorted(features.indptr, wrong[0], side="right")) - 1
            raise ValueError(f"{what}: row {row} holds NaN or infinity. Check the system that they come from.")
    else:
        features = as_matrix(features, what).astype(np.float32, copy=False)
        if len(features):
            check_finite(features, what)
    if features.shape[0] == 0:
        raise ValueError(f"{what}: there are none. Is the split empty?")
    if labels is not None and len(labels) != features.shape[0]:
        raise ValueError(f"{what}: {features.shape[0]} rows, but {len(labels)} labels. Give one label for each row.")
    return features


def mean_of_passages(passages: Passages) -> np.ndarray:
    """One embedding for each text, float32 ``(N, D)``, of norm 1: the mean, weighted by the passages' characters."""
    weights = np.maximum(np.diff(passages.spans, axis=1), 1).astype(np.float32)
    starts = np.cumsum(passages.counts) - passages.counts
    return normalize(np.add.reduceat(passages.embeddings * weights, starts))


def has_passages(features: Features) -> bool:
    """Whether each row is several vectors."""
    return features.dtype == object


def rows_of_passages(passages: Passages) -> np.ndarray:
    """The vectors of each text, ``(N,)`` of arrays ``(p, D)``: rows that can be selected like any other features."""
    rows = np.empty(len(passages.counts), dtype=object)
    rows[:] = np.split(passages.embeddings, np.cumsum(passages.counts)[:-1])
    return rows
