"""The expert "neighbors": the labels, soft where nobody gave one, of the nearest examples and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.duplicates import EQUAL_DISTANCE
from ...datastore.keys import as_float32
from ..knn.mixture import neighbor_weights
from .expert import Expert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...datastore.snapshot import SearchResult, Snapshot
    from ...encoders.chunking import Passages
    from .expert import Asked, Lesson

NEIGHBORS = 30
# Of the mean distance to the neighbors, as texts are farther apart for one encoder than for another.
RELATIVE_TEMPERATURE = 0.1
LEAST_SHARE = 1e-3


class Neighbors(Expert):
    """The votes of the nearest texts, which the store was asked for: it learns nothing."""

    def prior(self, lesson: Lesson) -> float:
        return 0.25 if lesson.has_documents else 0.05

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        if asked.several:
            kept = np.clip(asked.shares, 10 * LEAST_SHARE, 1 - 10 * LEAST_SHARE)
            return np.log(kept / (1 - kept))
        return np.log(asked.shares + LEAST_SHARE)


class Nearest(NamedTuple):
    """The nearest examples and documents of Q texts, and which of them vote: the 30 nearest of both together."""

    examples: SearchResult  # k of each text
    documents: SearchResult | None  # m of each text
    distances: np.ndarray  # float32 (Q, k + m), squared L2, of the examples and then the documents; infinity: no vote

    @property
    def voters(self) -> np.ndarray:
        """The columns of those that vote, nearest first, int64 ``(Q, 30)``, or fewer."""
        return np.argsort(self.distances, axis=1, kind="stable")[:, :NEIGHBORS]

    def temperature(self) -> float:
        """One that suits the distances of those that vote."""
        distances = np.take_along_axis(self.distances, self.voters, axis=1)
        distances = distances[np.isfinite(distances)]
        return RELATIVE_TEMPERATURE * float(distances.mean(dtype=np.float64)) if distances.any() else 1.0

    def weights(self, temperature: float) -> np.ndarray:
        """What each of the ``k + m`` counts (equation 2), float64: they add up to 1, or are all 0 where none votes."""
        voters = self.voters
        distances = np.take_along_axis(self.distances, voters, axis=1)
        finite = np.isfinite(distances)
        farthest = np.where(finite, distances, 0).max(1, keepdims=True)
        weights = neighbor_weights(np.where(finite, distances, farthest), temperature) * finite
        weights /= np.maximum(weights.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        counted = np.zeros(self.distances.shape)
        np.put_along_axis(counted, voters, weights, axis=1)
        return counted


def nearest_of_both(
    snapshot: Snapshot,
    queries: np.ndarray,
    passages: Passages | None,
    known: np.ndarray,
    without_equal: bool = False,
    least: int = 0,
) -> Nearest:
    """The nearest texts of a datastore to each query, ``(Q, D)``: 30 of both kinds, or ``least``.

    ``known``, bool ``(m,)``: which documents may vote. ``without_equal``: not the query itself, nor its copies.
    """
    queries, count = as_float32(queries), max(NEIGHBORS, least) + without_equal
    equal = EQUAL_DISTANCE * np.square(queries).sum(1, keepdims=True) if without_equal else -1.0
    examples = snapshot.search(queries, count, passages)
    documents, distances = None, [examples.distances]
    if snapshot.documents is not None and len(snapshot.documents.keys):
        unknown = int(np.count_nonzero(~known))
        documents = snapshot.documents.search(queries, count + min(unknown, count), passages)
        distances.append(np.where(known[documents.rows], documents.distances, np.inf))
    joined = np.hstack(distances)
    return Nearest(examples, documents, np.where(joined > equal, joined, np.inf))


def vote(weights: np.ndarray, rows: np.ndarray, soft: np.ndarray) -> np.ndarray:
    """The shares of the labels, ``(Q, C)``, where the ``rows`` ``(Q, k)`` of the labels ``soft`` ``(N, C)`` vote."""
    return np.stack([of_one @ soft[voters] for of_one, voters in zip(weights, rows, strict=True)])
