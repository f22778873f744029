"""Expert that votes with hard or propagated neighbor labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.duplicates import EQUAL_DISTANCE
from ...datastore.keys import as_float32
from ..knn.interpolation import neighbor_weights
from .expert import Expert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...datastore.snapshot import SearchResult
    from ...datastore.store import View
    from ...encoders.chunking import Passages
    from .document_places import DocumentPlaces
    from .expert import Features, TrainingData

VOTERS = 30
# The temperature of the votes as a fraction of the mean distance: distances differ between encoders.
RELATIVE_TEMPERATURE = 0.1
LEAST_PROPORTION = 1e-3


class Neighbors(Expert):
    """Votes of the nearest texts, as the store finds them; nothing is learned."""

    name = "neighbors"

    def prior(self, data: TrainingData) -> float:
        return 0.25 if data.has_many_documents else 0.05

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        proportions = features.neighbor_label_proportions
        if features.multi_label:
            clipped = np.clip(proportions, 10 * LEAST_PROPORTION, 1 - 10 * LEAST_PROPORTION)
            return np.log(clipped / (1 - clipped))
        return np.log(proportions + LEAST_PROPORTION)


class NearestTexts(NamedTuple):
    """Nearest examples and documents of Q texts; the 30 nearest of both together vote."""

    examples: SearchResult  # k of each text
    documents: SearchResult | None  # m of each text
    places: np.ndarray | None  # int64 (Q, m): of these documents in the corpus; -1 of those that came after fit
    distances: np.ndarray  # float32 (Q, k + m), squared L2, of the examples and then the documents; infinity: no vote

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels of the examples; on a server there may be more than when the view was made."""
        return self.examples.label_names

    @property
    def example_distances(self) -> np.ndarray:
        """Distances of the examples, ``(Q, k)``."""
        return self.distances[:, : self.examples.rows.shape[1]]

    @property
    def document_distances(self) -> np.ndarray:
        """Distances of the documents, ``(Q, m)``."""
        return self.distances[:, self.examples.rows.shape[1] :]

    @property
    def voters(self) -> np.ndarray:
        """Columns of the voters, nearest first, int64 ``(Q, 30)``, or fewer."""
        return np.argsort(self.distances, axis=1, kind="stable")[:, :VOTERS]

    def temperature(self) -> float:
        """A tenth of the mean distance of the voters; 1 if all distances are 0."""
        distances = np.take_along_axis(self.distances, self.voters, axis=1)
        distances = distances[np.isfinite(distances)]
        return RELATIVE_TEMPERATURE * float(distances.mean(dtype=np.float64)) if distances.any() else 1.0

    def weights(self, temperature: float) -> np.ndarray:
        """Weight of each of the ``k + m`` texts (equation 2), float64; rows add up to 1, or to 0 without voters."""
        voters = self.voters
        distances = np.take_along_axis(self.distances, voters, axis=1)
        finite = np.isfinite(distances)
        farthest = np.where(finite, distances, 0).max(1, keepdims=True)
        weights = neighbor_weights(np.where(finite, distances, farthest), temperature) * finite
        weights /= np.maximum(weights.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        of_all = np.zeros(self.distances.shape)
        np.put_along_axis(of_all, voters, weights, axis=1)
        return of_all


def nearest_texts(
    view: View,
    queries: np.ndarray,
    passages: Passages | None,
    places: DocumentPlaces,
    without_equal: bool = False,
    least: int = 0,
) -> NearestTexts:
    """Search the examples and the documents of a store for the nearest texts to each query, ``(Q, D)``.

    ``places``: those of the documents in the corpus; documents without one do not vote. ``without_equal``: leave out
    the query and its copies. ``least``: how many texts of each kind to find, if more than the 30 that vote.
    """
    queries = as_float32(queries)
    count = max(VOTERS, least) + without_equal
    equal = EQUAL_DISTANCE * np.square(queries).sum(1, keepdims=True) if without_equal else -1.0
    examples = view.search(queries, count, passages)
    if not view.count("documents"):
        distances = np.where(examples.distances > equal, examples.distances, np.inf)
        return NearestTexts(examples, None, None, distances)
    width = count + min(places.later, count)
    documents = view.search(queries, width, passages, "documents")
    found = places.of(documents)
    has_more = documents.rows.shape[1] == width
    # More came later than a server's count of documents tells: some that were fitted have been removed.
    if width < 2 * count and has_more and (found >= 0).sum(1).min(initial=count) < count:
        documents = view.search(queries, 2 * count, passages, "documents")
        found = places.of(documents)
    distances = np.hstack([examples.distances, np.where(found >= 0, documents.distances, np.inf)])
    return NearestTexts(examples, documents, found, np.where(distances > equal, distances, np.inf))


def vote(weights: np.ndarray, rows: np.ndarray, soft_labels: np.ndarray) -> np.ndarray:
    """Label proportions ``(Q, C)`` of weighted neighbors, the ``rows`` ``(Q, k)`` of ``soft_labels`` ``(N, C)``."""
    return np.stack([of_one @ soft_labels[voters] for of_one, voters in zip(weights, rows, strict=True)])
