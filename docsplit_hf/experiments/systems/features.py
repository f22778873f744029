"""Features of texts, dense or sparse, and what must hold for them before anything is measured on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...neighbors.store.key_matrix import as_matrix, check_finite

if TYPE_CHECKING:
    from .loading import Features


def check_features(features: Features, what: str, labels: np.ndarray | None = None) -> Features:
    """Refuse features that would be measured as if they were a bad system, and not a broken one.

    Args:
        features: ``(N, D)``, dense or sparse.
        what: What the error calls them.
        labels: ``(N,)``: as many are needed. None: there are none.

    Returns:
        The features: float32 if dense, in the CSR format if sparse.

    Raises:
        ValueError: If they are no matrix, are empty, hold NaN or infinity, or there are more or fewer labels.

    Example:

        >>> check_features(np.array([[0.0], [np.nan]]), "the test features")
        Traceback (most recent call last):
        ValueError: the test features: row 1 holds NaN, infinity or a number beyond 1e+15 (as float32). Embed its text \
again.
    """
    if is_sparse(features):
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


def is_sparse(features: Features) -> bool:
    """Whether features are sparse, without importing scipy for those that are not.

    Args:
        features: ``(N, D)``.

    Returns:
        True for the matrices and arrays of ``scipy.sparse``.

    Example:

        >>> is_sparse(np.eye(2))
        False
    """
    return hasattr(features, "tocsr")


def normalize_rows(features: Features) -> Features:
    """Scale each row to norm 1; a row of zeros stays one.

    Args:
        features: ``(N, D)``, dense or sparse.

    Returns:
        A copy, dense or sparse as they were.

    Example:

        >>> normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([[0.6, 0.8],
               [0. , 0. ]])
    """
    from sklearn.preprocessing import normalize

    return normalize(features)
