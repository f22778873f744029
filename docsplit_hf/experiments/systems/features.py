"""Features of texts, dense or sparse, and what must hold for them before anything is measured on them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ...neighbors.store.key_matrix import as_matrix, check_finite

Features = np.ndarray | sparse.csr_matrix  # (N, D)


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
