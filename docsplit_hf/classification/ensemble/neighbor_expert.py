"""The expert "neighbors": the labels, soft where nobody gave one, of the nearest examples and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.duplicates import EQUAL_DISTANCE
from ...datastore.keys import as_float32
from ..knn.mixture import neighbor_weights
from .expert import Expert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...datastore.snapshot import SearchResult
    from ...datastore.store import View
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
    places: np.ndarray | None  # int64 (Q, m): of the documents in the corpus that was fitted; -1 if they are not in it
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
    view: View,
    queries: np.ndarray,
    passages: Passages | None,
    places_of: Callable[[SearchResult], np.ndarray],
    unknown: int,
    without_equal: bool = False,
    least: int = 0,
) -> Nearest:
    """Find the nearest examples and documents of each query, ``(Q, D)``: 30 of each that may vote, or ``least``.

    Args:
        view: The state of the store that is searched.
        queries: Embeddings, ``(Q, D)``.
        passages: Passages of the queries, if they have several.
        places_of: Gives the places in the corpus of the documents that were found, int64 ``(Q, m)``; -1 for documents
            that are not in it, which do not vote.
        unknown: At least how many documents are not in the corpus.
        without_equal: Whether to leave out the query itself and its copies.
        least: How many neighbors to find at least, whether they vote or not.

    Returns:
        The neighbors, and which of them vote.
    """
    queries = as_float32(queries)
    count = max(NEIGHBORS, least) + without_equal
    equal = EQUAL_DISTANCE * np.square(queries).sum(1, keepdims=True) if without_equal else -1.0
    examples = view.search(queries, count, passages)
    if not view.count("documents"):
        distances = np.where(examples.distances > equal, examples.distances, np.inf)
        return Nearest(examples, None, None, distances)
    width = count + min(unknown, count)
    documents = view.search(queries, width, passages, "documents")
    places = places_of(documents)
    has_more = documents.rows.shape[1] == width
    if width < 2 * count and has_more and (places >= 0).sum(1).min(initial=count) < count:  # more unknown than expected
        documents = view.search(queries, 2 * count, passages, "documents")
        places = places_of(documents)
    joined = np.hstack([examples.distances, np.where(places >= 0, documents.distances, np.inf)])
    return Nearest(examples, documents, places, np.where(joined > equal, joined, np.inf))


def vote(weights: np.ndarray, rows: np.ndarray, soft: np.ndarray) -> np.ndarray:
    """The shares of the labels, ``(Q, C)``, where the ``rows`` ``(Q, k)`` of the labels ``soft`` ``(N, C)`` vote."""
    return np.stack([of_one @ soft[voters] for of_one, voters in zip(weights, rows, strict=True)])
