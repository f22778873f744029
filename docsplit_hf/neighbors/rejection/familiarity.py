"""How familiar a text is: low for texts of a class that nobody gave examples of."""

from __future__ import annotations

import numpy as np

from ..store.index import exact_search

NEAREST = 5


def closeness(queries: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """The mean cosine ``(Q,)`` of the 5 nearest examples; all vectors are ``(., D)`` of norm 1."""
    distances = exact_search(queries, examples, min(NEAREST, len(examples)))[0]
    return 1 - distances.mean(1) / 2  # |a - b|^2 = 2 - 2 cos


def familiarity(probabilities: np.ndarray, shares: np.ndarray, closeness: np.ndarray) -> np.ndarray:
    """``max p(y) max s(y) max(c, 0)^2``, from 0 to 1: the mixture, the agreement of the neighbors, and how near they are.

    ``probabilities`` and ``shares`` are ``(N, C)``, ``closeness`` is ``(N,)``. Each of the three misses some texts of
    unknown classes that the others find.
    """
    return probabilities.max(1) * shares.max(1) * np.maximum(closeness, 0) ** 2


def novelty(familiarity: np.ndarray, of_examples: np.ndarray) -> np.ndarray:
    """From 0 to 1, the share of held-out examples that are more familiar than a text.

    Between two examples, and below the least familiar one, it is interpolated, so that any two texts can be compared.
    """
    familiar = np.concatenate([[0.0], np.sort(of_examples), [1.0]])
    return 1 - np.interp(familiarity, familiar, np.linspace(0, 1, len(familiar)))
