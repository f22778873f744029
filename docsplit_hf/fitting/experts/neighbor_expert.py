"""The neighbors expert: nearest examples and documents of texts, their votes, and their closeness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...arrays.keys import as_float32
from ...arrays.passages import Passages
from ...arrays.snapshot import EQUAL_DISTANCE, SearchResult, Snapshot
from ..rejection import NEAREST_DOCUMENTS, NEAREST_EXAMPLES
from .corpus import id_numbers
from .expert import Expert, Features, TrainingData
from .text_vectors import unit

VOTERS = 30
# The temperature of the votes as a fraction of the mean distance: distances differ between encoders.
RELATIVE_TEMPERATURE = 0.1
LEAST_PROPORTION = 1e-3


class Neighbors(Expert):
    """Votes of the nearest texts that the store finds; nothing is learned."""

    name = "neighbors"

    def prior(self, data: TrainingData) -> float:
        return 0.25 if data.has_many_documents else 0.05

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        proportions = features.neighbor_label_proportions
        if features.multi_label:
            clipped = np.clip(proportions, 10 * LEAST_PROPORTION, 1 - 10 * LEAST_PROPORTION)
            return np.log(clipped / (1 - clipped))
        return np.log(proportions + LEAST_PROPORTION)


def places_of_documents(snapshot: Snapshot, corpus_ids: np.ndarray) -> np.ndarray:
    """Find the places of documents in the corpus, int64 ``(m,)``; -1 for documents that were added after ``fit``.

    ``corpus_ids``: hashes of the id and key of each text of the corpus, int64 ``(N,)``.
    """
    if snapshot.documents is None:
        return np.zeros(0, np.int64)
    ids = id_numbers(snapshot.documents.rows, snapshot.documents.keys)
    order = np.argsort(corpus_ids, kind="stable")
    found = order[np.searchsorted(corpus_ids, ids, sorter=order).clip(0, len(order) - 1)]
    return np.where(corpus_ids[found] == ids, found, -1)


def neighbor_weights(distances: np.ndarray, temperature: float) -> np.ndarray:
    """Weight of each neighbor by its squared L2 distance, both ``(N, k)`` (equation 2)::

        w_j = exp(-d_j / T) / sum_i exp(-d_i / T)

    With a small temperature T only the nearest neighbor has a weight; with infinity all have the same weight.

    Raises:
        ValueError: If T is not above 0, or a distance is not finite.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}. The paper uses 10; calibrate() chooses one.")
    distances = np.asarray(distances, dtype=np.float64)
    if not np.isfinite(distances).all():
        wrong = distances[~np.isfinite(distances)][0]
        raise ValueError(f"distances must be finite, got {wrong}: check the embeddings.")
    with np.errstate(over="ignore"):  # with a tiny T the exponent is minus infinity: the weight is 0
        weights = np.exp(-(distances - distances.min(1, keepdims=True)) / temperature)
    return weights / weights.sum(1, keepdims=True)


class NearestTexts(NamedTuple):
    """Nearest examples and documents of Q texts; the 30 nearest of both together vote."""

    examples: SearchResult  # k of each text
    documents: SearchResult | None  # m of each text
    places: np.ndarray | None  # int64 (Q, m): of these documents in the corpus; -1 if added after fit
    distances: np.ndarray  # float32 (Q, k + m), squared L2, of examples, then documents; infinite without a vote

    def temperature(self) -> float:
        """A tenth of the mean distance of the voters; 1 if all distances are 0."""
        distances = np.sort(self.distances, axis=1)[:, :VOTERS]
        distances = distances[np.isfinite(distances)]
        return RELATIVE_TEMPERATURE * float(distances.mean(dtype=np.float64)) if distances.any() else 1.0

    def weights(self, temperature: float, document_vote: float = 1.0) -> np.ndarray:
        """Weight of each of the ``k + m`` texts (equation 2), float64; rows add up to 1, or to 0 without voters.

        ``document_vote``: weight of the vote of a document, relative to that of an example at the same distance.
        """
        voters = np.argsort(self.distances, axis=1, kind="stable")[:, :VOTERS]  # columns, nearest first
        distances = np.take_along_axis(self.distances, voters, axis=1)
        finite = np.isfinite(distances)
        farthest = np.where(finite, distances, 0).max(1, keepdims=True)
        weights = neighbor_weights(np.where(finite, distances, farthest), temperature) * finite
        weights *= np.where(voters >= self.examples.rows.shape[1], document_vote, 1.0)
        weights /= np.maximum(weights.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        of_all = np.zeros(self.distances.shape)
        np.put_along_axis(of_all, voters, weights, axis=1)
        return of_all


def nearest_texts(
    snapshot: Snapshot,
    queries: np.ndarray,
    passages: Passages | None,
    places: np.ndarray,
    exclude_copies: bool = False,
    least: int = 0,
) -> NearestTexts:
    """Search the examples and the documents of a snapshot for the nearest texts to each query, ``(Q, D)``.

    ``places``: int64 ``(m,)``, places of the documents in the corpus; those without one, -1, do not vote.
    ``exclude_copies``: leave out the query and its copies. ``least``: number of examples, and of documents, to find if
    more than 30.
    """
    queries = as_float32(queries)
    count = max(VOTERS, least) + exclude_copies
    equal = EQUAL_DISTANCE * np.square(queries).sum(1, keepdims=True) if exclude_copies else -1.0
    examples = snapshot.search(queries, count, passages)
    if not snapshot.document_count:
        distances = np.where(examples.distances > equal, examples.distances, np.inf)
        return NearestTexts(examples, None, None, distances)
    # More, as those that were added later do not vote.
    documents = snapshot.documents.search(queries, count + min(int((places < 0).sum()), count), passages)
    found = places[documents.rows]
    distances = np.hstack([examples.distances, np.where(found >= 0, documents.distances, np.inf)])
    return NearestTexts(examples, documents, found, np.where(distances > equal, distances, np.inf))


def without_versions(
    nearest: NearestTexts, example_places: np.ndarray, groups: np.ndarray, own_groups: np.ndarray
) -> NearestTexts:
    """Take the votes from versions of the query.

    Args:
        nearest: The nearest texts of Q queries.
        example_places: Place of each example in the corpus, int64 ``(n,)``.
        groups: Numbers of the groups of versions in the corpus, int64 ``(N,)``.
        own_groups: Number of the group of each query, int64 ``(Q,)``.

    Returns:
        The nearest texts; those of the group of their query have an infinite distance.
    """
    places = example_places[nearest.examples.rows]
    if nearest.places is not None:
        places = np.hstack([places, nearest.places])
    is_version = (groups[places] == own_groups[:, None]) & (places >= 0)
    return nearest._replace(distances=np.where(is_version, np.inf, nearest.distances))


def vote(weights: np.ndarray, rows: np.ndarray, soft_labels: np.ndarray) -> np.ndarray:
    """Label proportions ``(Q, C)`` of weighted neighbors, the ``rows`` ``(Q, k)`` of ``soft_labels`` ``(N, C)``."""
    return np.stack([of_one @ soft_labels[voters] for of_one, voters in zip(weights, rows, strict=True)])


def closeness_to_examples(nearest: NearestTexts, embeddings: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mean cosine to the 5 nearest examples, ``(N,)``."""
    is_found = np.isfinite(nearest.distances[:, : nearest.examples.rows.shape[1]])
    return _mean_cosine(embeddings, nearest.examples, mean, is_found, NEAREST_EXAMPLES)


def closeness_to_documents(nearest: NearestTexts, embeddings: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Mean cosine to the 20 nearest documents that were fitted, ``(N,)``; 0 if none was found."""
    is_found = np.isfinite(nearest.distances[:, nearest.examples.rows.shape[1] :])
    return _mean_cosine(embeddings, nearest.documents, mean, is_found, NEAREST_DOCUMENTS)


def _mean_cosine(
    embeddings: np.ndarray, nearest: SearchResult, mean: np.ndarray, is_found: np.ndarray, count: int
) -> np.ndarray:
    """Mean of the ``count`` largest cosines of centered embeddings ``(N, D)`` to the nearest rows that ``is_found``."""
    cosines = np.full(is_found.shape, -np.inf)
    for number, of_one in enumerate(nearest.rows):
        near = unit(as_float32(nearest.keys[of_one]) - mean) @ unit(embeddings[[number]] - mean)[0]
        cosines[number] = np.where(is_found[number], near, -np.inf)
    best = -np.sort(-cosines, axis=1)[:, :count]
    is_finite = np.isfinite(best)
    return np.where(is_finite, best, 0).sum(1) / np.maximum(is_finite.sum(1), 1)
