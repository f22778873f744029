"""Scores of new texts by each fitted expert, before they are weighted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.keys import as_float32
from ..rejection import NEAREST_DOCUMENTS, NEAREST_EXAMPLES
from .corpus import DocumentVectors, id_numbers, unit
from .expert import Features
from .log_linear_pool import pool
from .neighbor_expert import NearestTexts, nearest_texts, vote
from .registry import Learned, score_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

    from ...datastore.snapshot import Snapshot
    from ...encoders.chunking import Passages


class Ensemble(NamedTuple):
    """Fitted experts without their weights."""

    experts: list[str]
    labels: list[str]  # names of the labels that have examples, in the order of all arrays
    multi_label: bool  # whether a text may have several labels
    temperature: float  # of the votes of the neighbors (equation 2)
    document_vectors: DocumentVectors
    vectorizer: TfidfVectorizer | None  # None if the texts of the corpus have no words
    learned: Learned
    ids: np.ndarray  # int64 (N,): hashes of the texts of the corpus

    def word_features(self, texts: list[str]) -> sp.csr_matrix | None:
        """Words of texts, TF-IDF ``(N, V)``."""
        return None if self.vectorizer is None else self.vectorizer.transform(texts)

    def label_columns(self, label_names: Sequence[str]) -> np.ndarray:
        """Numbers of the fitted labels among all labels, ``(C,)``."""
        return np.array([label_names.index(name) for name in self.labels])


class Scores(NamedTuple):
    """Scores of N texts by E experts, over the C labels that were fitted."""

    logits: np.ndarray  # (E, N, C), unweighted
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    vectors: np.ndarray  # (N, D + r)
    neighbor_label_proportions: np.ndarray  # (N, L): over all labels of the datastore
    nearest: NearestTexts
    votes: np.ndarray  # (N, k + m): weights of the nearest texts


def places_of_documents(snapshot: Snapshot, ensemble: Ensemble) -> np.ndarray:
    """Places of a datastore's documents in the corpus that was fitted, int64 ``(m,)``; -1 of those that came later."""
    documents = snapshot.documents
    ids = np.zeros(0, np.int64) if documents is None else id_numbers(documents.rows, documents.keys)
    order = np.argsort(ensemble.ids, kind="stable")
    found = order[np.searchsorted(ensemble.ids, ids, sorter=order).clip(0, len(order) - 1)]
    return np.where(ensemble.ids[found] == ids, found, -1)


def score_by_expert(
    snapshot: Snapshot,
    ensemble: Ensemble,
    places: np.ndarray,
    embeddings: np.ndarray,
    texts: list[str],
    head_logits: np.ndarray | None,
    passages: Passages | None = None,
    without_equal: bool = False,
    least_neighbors: int = 0,
) -> Scores:
    """Score N texts by their embeddings ``(N, D)``, perhaps of passages, too, and their words.

    ``places`` are those of the documents in the corpus, ``head_logits`` ``(N, H)`` those of a trained classifier, over
    the first H labels; without one, H is 0. ``without_equal``: leave out the texts themselves and their copies.
    ``least_neighbors``: how many neighbors to find, if more than those that vote.
    """
    words = ensemble.word_features(texts)
    vectors = ensemble.document_vectors.join(embeddings, words)
    columns = ensemble.label_columns(snapshot.label_names)
    nearest = nearest_texts(snapshot, embeddings, passages, places >= 0, without_equal, least_neighbors)
    votes = nearest.weights(ensemble.temperature)
    proportions = _label_proportions(ensemble, places, nearest, votes, columns)
    of_fitted_labels = proportions[:, columns]
    if not ensemble.multi_label:
        of_fitted_labels = of_fitted_labels / np.maximum(of_fitted_labels.sum(1, keepdims=True), 1e-12)
    has_head = head_logits is not None and head_logits.shape[1] > 0
    features = Features(
        vectors=vectors,
        whitened=ensemble.document_vectors.whitened(vectors),
        words=words,
        neighbor_label_proportions=of_fitted_labels,
        head_logits=logits_of(head_logits, columns) if has_head else None,
        multi_label=ensemble.multi_label,
    )
    return Scores(
        logits=score_all(ensemble.learned.by_expert, ensemble.experts, features),
        words=words,
        vectors=vectors,
        neighbor_label_proportions=proportions,
        nearest=nearest,
        votes=votes,
    )


def _label_proportions(
    ensemble: Ensemble, places: np.ndarray, nearest: NearestTexts, votes: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Proportions of all labels in the votes, ``(N, L)``: present labels of examples, propagated ones of documents."""
    found = nearest.examples
    count = found.rows.shape[1]
    labels = found.labels if found.labels.ndim == 3 else found.labels[..., None] == np.arange(len(found.label_names))
    proportions = np.einsum("qk,qkl->ql", votes[:, :count], labels)
    if nearest.documents is not None:
        proportions[:, columns] += vote(votes[:, count:], places[nearest.documents.rows], ensemble.learned.soft_labels)
    return proportions


def ensemble_probabilities(scores: Scores, ensemble: Ensemble, columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probabilities of all labels, ``(N, L)``, by the weights ``(E,)`` of the logits.

    Labels that came after ``fit`` get the probability that the neighbors give them; the others share the rest.
    """
    proportions = scores.neighbor_label_proportions
    new = np.setdiff1d(np.arange(proportions.shape[1]), columns)
    rest = 1.0 if ensemble.multi_label else 1 - proportions[:, new].sum(1, keepdims=True)
    probabilities = proportions.copy()
    probabilities[:, columns] = rest * pool(scores.logits, weights, ensemble.multi_label, ensemble.learned.shift)
    return probabilities


def logits_of(logits: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Select the logits ``(N, C)`` of some labels; labels that came after training get the mean of the text's logits.

    A low constant would inflate the spread.
    """
    missing = max(columns.max() + 1 - logits.shape[1], 0)
    return np.hstack([logits, np.repeat(logits.mean(1, keepdims=True), missing, axis=1)])[:, columns]


def closeness_to_examples(
    nearest: NearestTexts, embeddings: np.ndarray, keys: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Mean cosine to the 5 nearest examples, ``(N,)``; ``keys`` are those of all examples."""
    is_found = np.isfinite(nearest.example_distances)
    return _mean_cosine(embeddings, keys, mean, nearest.examples.rows, is_found, NEAREST_EXAMPLES)


def closeness_to_documents(
    nearest: NearestTexts, embeddings: np.ndarray, keys: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Mean cosine to the 20 nearest documents that were fitted, ``(N,)``; 0 if none was found."""
    is_found = np.isfinite(nearest.document_distances)
    return _mean_cosine(embeddings, keys, mean, nearest.documents.rows, is_found, NEAREST_DOCUMENTS)


def _mean_cosine(
    embeddings: np.ndarray, keys: np.ndarray, mean: np.ndarray, rows: np.ndarray, is_found: np.ndarray, count: int
) -> np.ndarray:
    """Mean of the ``count`` largest cosines of centered embeddings ``(N, D)`` to the keys at ``rows`` ``(N, k)``."""
    cosines = np.full(is_found.shape, -np.inf)
    for number, of_one in enumerate(rows):
        near = unit(as_float32(keys[of_one]) - mean) @ unit(embeddings[[number]] - mean)[0]
        cosines[number] = np.where(is_found[number], near, -np.inf)
    best = -np.sort(-cosines, axis=1)[:, :count]
    is_finite = np.isfinite(best)
    return np.where(is_finite, best, 0).sum(1) / np.maximum(is_finite.sum(1), 1)
