"""How familiar a text is: low for texts of a class that nobody gave examples of."""

from __future__ import annotations

import numpy as np

from ..store.duplicates import EQUAL
from ..store.index import exact_search

NEAREST = 5
NOVEL = 0.99  # a text that is less familiar than 99 % of the held-out examples gets no answer, however sure it seems


def closeness(queries: np.ndarray, examples: np.ndarray, without_equal: bool = False) -> np.ndarray:
    """The mean cosine ``(Q,)`` of the 5 nearest examples; all vectors are ``(., D)`` of norm 1.

    ``without_equal``: examples that are the query or a copy of it do not count; 0 where there are no others.
    """
    near = np.zeros(len(queries))
    rows, deeper = np.arange(len(queries)), NEAREST + without_equal
    while len(rows):
        count = min(deeper, len(examples))
        distances = exact_search(queries[rows], examples, count)[0]
        others = distances > (EQUAL if without_equal else -1)
        others &= np.cumsum(others, axis=1) <= NEAREST
        found = others.sum(1)
        near[rows] = ((1 - distances / 2) * others).sum(1) / np.maximum(found, 1)  # |a - b|^2 = 2 - 2 cos
        rows = rows[(found < NEAREST) & (count < len(examples))]  # of texts with many copies
        deeper *= 4
    return near


def familiarity(probabilities: np.ndarray, shares: np.ndarray, closeness: np.ndarray) -> np.ndarray:
    """``max p(y) max s(y) max(c, 0)^2``, from 0 to 1: of the mixture, of the neighbors' labels, and their nearness.

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


def confidence(probabilities: np.ndarray, novelty: np.ndarray) -> np.ndarray:
    """How sure an answer is, ``(N,)``: the largest of the probabilities ``(N, C)``, and 0 for a novel text."""
    return np.where(novelty > NOVEL, 0, probabilities.max(1)).astype(np.float32)  # as held-out probabilities are kept
