"""Scores and probabilities that a fitted ensemble gives texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..experts.expert import Features
from ..experts.log_linear_pool import pool
from ..experts.neighbor_expert import (
    NearestTexts,
    closeness_to_documents,
    closeness_to_examples,
    nearest_texts,
    places_of_documents,
    vote,
)
from ..experts.registry import EXPERTS
from ..experts.style_expert import style_of_texts
from ..rejection import familiarity
from .content import KnownContent, content_of_examples
from .fitted_ensemble import Ensemble, Fit, check_state

if TYPE_CHECKING:
    import scipy.sparse as sp

    from ...arrays.passages import Passages
    from ...arrays.snapshot import Snapshot
    from ..experts.text_vectors import WordRows


class PreparedExperts(NamedTuple):
    """Ensemble prepared for one snapshot of a datastore, to score many texts."""

    snapshot: Snapshot
    ensemble: Ensemble
    places: np.ndarray  # int64 (m,): of the documents in the corpus; -1 for those added after fit
    columns: np.ndarray  # (C,): numbers of the fitted labels among all labels
    fitted: Fit | None = None  # None while it is fitted
    thresholds: np.ndarray | None = None  # (L,): of all labels, if texts may have several
    content: KnownContent | None = None  # None while the ensemble is fitted

    @classmethod
    def of(cls, snapshot: Snapshot, fitted: Fit) -> PreparedExperts:
        """Prepare a fit: examples vote by their present labels, documents by those propagated in ``fit``."""
        thresholds = fitted.label_thresholds(snapshot.label_names)
        return cls.of_ensemble(snapshot, fitted.ensemble)._replace(
            fitted=fitted, thresholds=thresholds, content=content_of_examples(snapshot)
        )

    @classmethod
    def of_ensemble(cls, snapshot: Snapshot, ensemble: Ensemble) -> PreparedExperts:
        """Prepare an ensemble while it is fitted."""
        places = places_of_documents(snapshot, ensemble.ids)
        columns = ensemble.label_columns(snapshot.label_names)
        return cls(snapshot=snapshot, ensemble=ensemble, places=places, columns=columns)


def prepare_experts(snapshot: Snapshot, before: PreparedExperts | None = None) -> PreparedExperts | None:
    """Prepare the experts of a snapshot, or reuse ``before`` if nothing changed; None if nothing was fitted."""
    if snapshot.fitted is None:
        return None
    if before is not None and before.snapshot is snapshot:
        return before
    check_state(snapshot.fitted, snapshot)
    is_same_fit = before is not None and before.snapshot.fitted is snapshot.fitted
    return PreparedExperts.of(snapshot, before.fitted if is_same_fit else Fit.from_state(snapshot.fitted))


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of N texts by E experts, and what they were computed from."""

    probabilities: np.ndarray  # (N, L), over all labels of the datastore
    logits: np.ndarray  # (E, N, C), unweighted, over the labels that were fitted
    weights: np.ndarray  # (E,): of the logits
    words: sp.csr_matrix | WordRows | None  # TF-IDF (N, V)
    style: np.ndarray | None  # (N, S): how the texts are written; None if no expert reads it
    columns: np.ndarray  # (C,): numbers of the fitted labels among all labels
    vectors: np.ndarray  # (N, D + r)
    neighbor_label_proportions: np.ndarray  # (N, L)
    nearest: NearestTexts
    votes: np.ndarray  # (N, k + m): weights of the nearest texts
    closeness: np.ndarray | None  # (N,): mean cosine to the nearest examples; None unless requested
    closeness_to_documents: np.ndarray | None  # (N,): mean cosine to the nearest documents; None if not used

    @property
    def weighted_logits(self) -> np.ndarray:
        """Weighted logits of each expert, ``(E, N, C)``."""
        return self.weights[:, None, None] * self.logits

    def familiarity(self) -> np.ndarray:
        """Familiarity of the texts, ``(N,)``."""
        proportions = self.neighbor_label_proportions
        return familiarity(self.probabilities, proportions, self.closeness, self.closeness_to_documents)


def score_texts(
    experts: PreparedExperts,
    embeddings: np.ndarray,
    texts: list[str],
    head_logits: np.ndarray | None,
    passages: Passages | None = None,
    exclude_copies: bool = False,
    with_closeness: bool = False,
    min_neighbors: int = 0,
) -> Scores:
    """Score N texts by each expert, and pool the scores.

    Args:
        experts: The experts.
        embeddings: ``(N, D)``.
        texts: The texts; pairs are joined.
        head_logits: Logits of a trained classifier, ``(N, H)``, over the first H labels; without one, H is 0.
        passages: Embeddings of passages, if texts have several.
        exclude_copies: Whether to leave out the texts themselves and their copies as neighbors.
        with_closeness: Whether to measure how close the texts are to examples, for their familiarity.
        min_neighbors: Number of neighbors to find, if more than those that vote.

    Returns:
        The scores and probabilities. Labels that came after ``fit`` get the probability that the neighbors give them;
        the others share the rest.
    """
    words = experts.ensemble.tfidf.transform(texts)
    style = style_of_texts(texts) if any(EXPERTS[name].reads_style for name in experts.ensemble.weights) else None
    return score_features(
        experts, embeddings, words, style, head_logits, passages, exclude_copies, with_closeness, min_neighbors
    )


def score_features(
    experts: PreparedExperts,
    embeddings: np.ndarray,
    words: sp.csr_matrix | WordRows | None,
    style: np.ndarray | None,
    head_logits: np.ndarray | None,
    passages: Passages | None = None,
    exclude_copies: bool = False,
    with_closeness: bool = False,
    min_neighbors: int = 0,
) -> Scores:
    """Score N texts by their words, TF-IDF ``(N, V)``, and their style ``(N, S)``, as ``score_texts`` does."""
    ensemble = experts.ensemble
    if exclude_copies:  # rounded to the dtype of the keys, so that a text equals its stored key
        embeddings = embeddings.astype(experts.snapshot.keys.dtype, copy=False)
    vectors = ensemble.document_vectors.join(embeddings, words)
    nearest = nearest_texts(experts.snapshot, embeddings, passages, experts.places, exclude_copies, min_neighbors)
    columns = experts.columns
    votes = nearest.weights(ensemble.temperature, ensemble.document_vote)
    proportions = _label_proportions(ensemble, nearest, votes, columns)
    of_fitted_labels = proportions[:, columns]
    if not ensemble.multi_label:
        of_fitted_labels = of_fitted_labels / np.maximum(of_fitted_labels.sum(1, keepdims=True), 1e-12)
    has_head = head_logits is not None and head_logits.shape[1] > 0
    features = Features(
        vectors=vectors,
        whitened=ensemble.document_vectors.whitened(vectors),
        words=words,
        style=style,
        neighbor_label_proportions=of_fitted_labels,
        head_logits=logits_of(head_logits, columns) if has_head else None,
        multi_label=ensemble.multi_label,
    )
    logits = score_all(ensemble.learned.by_expert, ensemble.weights, features)
    weights = np.array(list(ensemble.weights.values()))
    to_documents = None
    if with_closeness and ensemble.compares_with_documents and nearest.documents is not None:
        to_documents = closeness_to_documents(nearest, embeddings, ensemble.document_vectors.mean)
    return Scores(
        probabilities=_probabilities(ensemble, logits, weights, proportions, columns),
        logits=logits,
        weights=weights,
        words=words,
        style=style,
        columns=columns,
        vectors=vectors,
        neighbor_label_proportions=proportions,
        nearest=nearest,
        votes=votes,
        closeness=(
            closeness_to_examples(nearest, embeddings, ensemble.document_vectors.mean) if with_closeness else None
        ),
        closeness_to_documents=to_documents,
    )


def score_all(
    by_expert: Mapping[str, Mapping[str, np.ndarray]], experts: Sequence[str], features: Features
) -> np.ndarray:
    """Logits of texts by each expert, float64 ``(E, N, C)``."""
    scores = [EXPERTS[name].score(by_expert[name], features) for name in experts]
    return np.stack([np.asarray(logits, dtype=np.float64) for logits in scores])


def _label_proportions(ensemble: Ensemble, nearest: NearestTexts, votes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Proportions of all labels in the votes, ``(N, L)``: present labels of examples, propagated ones of documents."""
    found = nearest.examples
    count = found.rows.shape[1]
    labels = found.labels if found.labels.ndim == 3 else found.labels[..., None] == np.arange(len(found.label_names))
    proportions = np.einsum("qk,qkl->ql", votes[:, :count], labels)
    if nearest.documents is not None:
        proportions[:, columns] += vote(votes[:, count:], nearest.places, ensemble.learned.soft_labels)
    return proportions


def _probabilities(
    ensemble: Ensemble, logits: np.ndarray, weights: np.ndarray, proportions: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Probabilities of all labels, ``(N, L)``; ``proportions`` are those in the votes of the neighbors."""
    new = np.setdiff1d(np.arange(proportions.shape[1]), columns)
    rest = 1.0 if ensemble.multi_label else 1 - proportions[:, new].sum(1, keepdims=True)
    probabilities = proportions.copy()
    probabilities[:, columns] = rest * pool(logits, weights, ensemble.multi_label, ensemble.learned.shift)
    return probabilities


def logits_of(logits: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Select the logits ``(N, C)`` of some labels; labels that came after training get the mean of the text's logits.

    A low constant would inflate the spread of the logits.
    """
    missing = max(columns.max() + 1 - logits.shape[1], 0)
    return np.hstack([logits, np.repeat(logits.mean(1, keepdims=True), missing, axis=1)])[:, columns]
