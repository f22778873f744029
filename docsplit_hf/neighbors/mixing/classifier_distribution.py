"""The distribution of the classifier: equation 1 of Liang et al. 2023."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax


def classifier_probabilities(logits: np.ndarray, multi_label: bool) -> np.ndarray | None:
    """Equation 1: softmax of ``logits``, ``(N, C)``, or a sigmoid of each; None if C is 0: there is no head."""
    if logits.shape[1] == 0:
        return None
    return expit(logits.astype(np.float64)) if multi_label else softmax(logits.astype(np.float64), axis=1)
