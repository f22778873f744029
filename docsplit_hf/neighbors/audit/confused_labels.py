"""Labels that the experts cannot tell apart."""

from __future__ import annotations

import numpy as np

LEAST_SHARE, LEAST_COUNT = 0.1, 3


def confused_labels(labels: np.ndarray, answers: np.ndarray, count: int) -> list[tuple[int, int, int, int, float]]:
    """Pairs ``(a, b, a taken for b, b taken for a, share)``, the most confused first.

    ``labels`` and ``answers`` are ``(m,)``, numbers below ``count``. The share is that of the wrong answers among those
    to texts of the two that name one of the two: with 0.5 the answers tell nothing.
    """
    matrix = np.zeros((count, count), np.int64)
    np.add.at(matrix, (labels, answers), 1)
    pairs = []
    for a, b in zip(*np.nonzero(np.triu(matrix + matrix.T, 1)), strict=True):
        wrong = matrix[a, b] + matrix[b, a]
        share = wrong / (wrong + matrix[a, a] + matrix[b, b])
        if wrong >= LEAST_COUNT and share >= LEAST_SHARE:
            pairs.append((int(a), int(b), int(matrix[a, b]), int(matrix[b, a]), float(share)))
    return sorted(pairs, key=lambda pair: -pair[-1])
