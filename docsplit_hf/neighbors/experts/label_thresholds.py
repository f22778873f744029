"""From which probability on a text has a label, where texts may have several."""

from __future__ import annotations

import numpy as np

FEWEST = 5  # examples of a label, and without it, from which its own threshold can be told


def label_thresholds(probabilities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The threshold of each label ``(C,)`` with the best F1 on held-out examples ``(n, C)``.

    A label with fewer than 5 examples has the threshold that is best for all labels together; without any examples it
    is 0.5.
    """
    if not len(targets):
        return np.full(targets.shape[1], 0.5)
    common = _best(probabilities.ravel(), targets.ravel())
    counts = np.minimum(targets.sum(0), (1 - targets).sum(0))
    columns = zip(probabilities.T, targets.T, counts, strict=True)
    return np.array([_best(p, y) if count >= FEWEST else common for p, y, count in columns])


def _best(probabilities: np.ndarray, targets: np.ndarray) -> float:
    """In the middle between the last that is in and the first that is out, so that rounding decides nothing."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, hits = probabilities[order], np.cumsum(targets[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + max(hits[-1], 1))
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # equal probabilities are in or out together
    last = int(f1.argmax())
    return float((ranked[last] + (ranked[last + 1] if last + 1 < len(ranked) else 0)) / 2)
