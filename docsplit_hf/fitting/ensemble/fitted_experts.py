"""Fitted experts, what is saved of them, and the probabilities that they give texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...arrays.snapshot import FittedState
from ..label_tree import label_tree
from ..rejection import familiarity
from .corpus import DocumentVectors, texts_in
from .expert import Features
from .fit_settings import FitSettings
from .guarantees import Guarantees, HeldOutAnswers
from .log_linear_pool import pool
from .neighbor_expert import (
    DocumentPlaces,
    NearestTexts,
    closeness_to_documents,
    closeness_to_examples,
    nearest_texts,
    places_of_documents,
    vote,
)
from .registry import EXPERTS, Learned, score_all
from .saved_state import (
    HELD_OUT_COUNTED,
    HELD_OUT_PREFIX,
    PROPORTION_DRAWS,
    PROPORTIONS,
    SHIFT,
    SOFT_LABELS,
    check_state,
    sizes_of,
)
from .tfidf import restore_vectorizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

    from ...arrays.passages import Passages
    from ...arrays.store import View


class Ensemble(NamedTuple):
    """Fitted experts without their weights."""

    experts: list[str]
    labels: list[str]  # names of the labels that have examples, in the order of all arrays
    multi_label: bool  # whether a text may have several labels
    temperature: float  # of the votes of the neighbors (equation 2)
    document_vote: float  # weight of the vote of a document, relative to that of an example
    document_vectors: DocumentVectors
    vectorizer: TfidfVectorizer | None  # None if the texts of the corpus have no words
    learned: Learned
    ids: np.ndarray  # int64 (N,): hashes of the id and key of each text of the corpus

    def word_features(self, texts: list[str]) -> sp.csr_matrix | None:
        """Words of texts, TF-IDF ``(N, V)``."""
        return None if self.vectorizer is None else self.vectorizer.transform(texts)

    def label_columns(self, label_names: Sequence[str]) -> np.ndarray:
        """Numbers of the fitted labels among all labels, ``(C,)``."""
        return np.array([label_names.index(name) for name in self.labels])


class FittedExperts(NamedTuple):
    """Everything that ``fit`` learned from a datastore."""

    settings: FitSettings
    ensemble: Ensemble
    guarantees: Guarantees
    held_out: HeldOutAnswers  # to all held-out texts
    is_counted: np.ndarray  # bool (m,): whether the guarantees count each of them: one of each group of versions

    @property
    def experts(self) -> list[str]:
        """Names of the experts."""
        return self.ensemble.experts

    @property
    def labels(self) -> list[str]:
        """Names of the labels that have examples, in the order of all arrays."""
        return self.ensemble.labels

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels."""
        return self.ensemble.multi_label

    @property
    def ids(self) -> np.ndarray:
        """Hashes of the id and key of each text of the corpus, int64 ``(N,)``."""
        return self.ensemble.ids

    def to_state(self) -> FittedState:
        """Convert to data that a datastore saves."""
        ensemble = self.ensemble
        learned = ensemble.learned
        vectors = ensemble.document_vectors
        held_out = self.held_out
        terms = ()
        idf = np.zeros(0, np.float32)
        if ensemble.vectorizer is not None:
            terms = tuple(ensemble.vectorizer.get_feature_names_out().tolist())
            idf = ensemble.vectorizer.idf_
        arrays = {
            "mean": vectors.mean,
            "components": vectors.components,
            "whitening": vectors.whitening,
            SOFT_LABELS: learned.soft_labels,
            SHIFT: learned.shift,
            PROPORTIONS: learned.proportions,
            "ids": ensemble.ids,
            "idf": idf,
            PROPORTION_DRAWS: self.guarantees.proportion_draws,
            f"{HELD_OUT_PREFIX}ids": held_out.ids,
            f"{HELD_OUT_PREFIX}probabilities": held_out.probabilities,
            f"{HELD_OUT_PREFIX}labels": held_out.labels,
            f"{HELD_OUT_PREFIX}familiarity": held_out.familiarity,
        }
        if not self.is_counted.all():  # folders without versions are the same as before
            arrays[HELD_OUT_COUNTED] = self.is_counted
        for name in self.experts:
            for array, values in learned.by_expert[name].items():
                arrays[EXPERTS[name].saved_name(array)] = values
        return FittedState(self.settings.to_json(), arrays, terms)

    @classmethod
    def from_state(cls, state: FittedState) -> FittedExperts:
        """Restore what ``to_state`` converted, bit for bit."""
        arrays = state.arrays
        settings = FitSettings.from_json(state.settings)
        sizes = sizes_of(state, embedding_dimensions=len(arrays["mean"]))
        by_expert = {}
        for name in settings.weights:
            expert = EXPERTS[name]
            by_expert[name] = {array: arrays[expert.saved_name(array)] for array in expert.arrays(sizes)}
        learned = Learned(
            soft_labels=arrays[SOFT_LABELS],
            shift=arrays[SHIFT],
            proportions=arrays[PROPORTIONS],
            by_expert=by_expert,
        )
        document_vectors = DocumentVectors(
            mean=arrays["mean"], components=arrays["components"], whitening=arrays["whitening"]
        )
        ensemble = Ensemble(
            experts=list(settings.weights),
            labels=settings.labels,
            multi_label=settings.multi_label,
            temperature=settings.temperature,
            document_vote=settings.document_vote,
            document_vectors=document_vectors,
            vectorizer=restore_vectorizer(state.vocabulary, arrays["idf"]),
            learned=learned,
            ids=arrays["ids"],
        )
        held_out = HeldOutAnswers(
            ids=arrays[f"{HELD_OUT_PREFIX}ids"],
            probabilities=arrays[f"{HELD_OUT_PREFIX}probabilities"],
            labels=arrays[f"{HELD_OUT_PREFIX}labels"],
            familiarity=arrays[f"{HELD_OUT_PREFIX}familiarity"],
        )
        is_counted = arrays.get(HELD_OUT_COUNTED, np.ones(len(held_out.ids), bool))
        guarantees = Guarantees(
            held_out=held_out.rows(is_counted),
            proportion_draws=arrays.get(PROPORTION_DRAWS, np.zeros((0, len(settings.labels)), np.float32)),
            multi_label=settings.multi_label,
            # The calls use the default limit on novelty that fit() chose and reported.
            default_lost=settings.report.novelty,
            tree=label_tree(settings.report.paths),
        )
        return cls(settings, ensemble, guarantees, held_out, is_counted)


class PreparedExperts(NamedTuple):
    """Fitted experts prepared for one view of a store, to score many texts."""

    view: View
    fitted: FittedExperts
    places: DocumentPlaces

    @classmethod
    def of(cls, view: View, fitted: FittedExperts) -> PreparedExperts:
        """Prepare fitted experts: examples vote by their present labels, documents by those propagated in ``fit``."""
        places = places_of_documents(view, fitted.ensemble.ids, fitted.settings.report.documents)
        return cls(view, fitted, places)


def prepare_experts(view: View, before: PreparedExperts | None = None) -> PreparedExperts | None:
    """Prepare the experts of a view, or reuse ``before`` if nothing changed; None if nothing was fitted."""
    if view.fitted is None:
        return None
    if before is not None and before.view is view:
        return before
    check_state(view.fitted, view)
    is_same_fit = before is not None and before.view.fitted is view.fitted
    fitted = before.fitted if is_same_fit else FittedExperts.from_state(view.fitted)
    return PreparedExperts.of(view, fitted)


class Scores(NamedTuple):
    """Scores of N texts by E experts, over the C labels that were fitted."""

    logits: np.ndarray  # (E, N, C), unweighted
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    vectors: np.ndarray  # (N, D + r)
    neighbor_label_proportions: np.ndarray  # (N, L): over all labels of the datastore
    nearest: NearestTexts
    votes: np.ndarray  # (N, k + m): weights of the nearest texts


def score_by_expert(
    view: View,
    ensemble: Ensemble,
    places: DocumentPlaces,
    embeddings: np.ndarray,
    texts: list[str],
    head_logits: np.ndarray | None,
    passages: Passages | None = None,
    exclude_copies: bool = False,
    min_neighbors: int = 0,
) -> Scores:
    """Score N texts by each expert.

    Args:
        view: The examples and documents.
        ensemble: The experts.
        places: Places of the documents in the corpus.
        embeddings: ``(N, D)``.
        texts: The texts; pairs are joined.
        head_logits: Logits of a trained classifier, ``(N, H)``, over the first H labels; without one, H is 0.
        passages: Embeddings of passages, if texts have several.
        exclude_copies: Whether to leave out the texts themselves and their copies as neighbors.
        min_neighbors: Number of neighbors to find, if more than those that vote.
    """
    words = ensemble.word_features(texts)
    vectors = ensemble.document_vectors.join(embeddings, words)
    nearest = nearest_texts(view, embeddings, passages, places, exclude_copies, min_neighbors)
    columns = ensemble.label_columns(nearest.label_names)
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


def _label_proportions(ensemble: Ensemble, nearest: NearestTexts, votes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Proportions of all labels in the votes, ``(N, L)``: present labels of examples, propagated ones of documents."""
    found = nearest.examples
    count = found.rows.shape[1]
    labels = found.labels if found.labels.ndim == 3 else found.labels[..., None] == np.arange(len(found.label_names))
    proportions = np.einsum("qk,qkl->ql", votes[:, :count], labels)
    if nearest.documents is not None:
        proportions[:, columns] += vote(votes[:, count:], nearest.places, ensemble.learned.soft_labels)
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

    A low constant would inflate the spread of the logits.
    """
    missing = max(columns.max() + 1 - logits.shape[1], 0)
    return np.hstack([logits, np.repeat(logits.mean(1, keepdims=True), missing, axis=1)])[:, columns]


class ScoredTexts(NamedTuple):
    """Probabilities of N texts, and what they were computed from."""

    probabilities: np.ndarray  # (N, L), over all labels of the datastore
    weighted_logits: np.ndarray  # (E, N, C): of each expert, over the labels that were fitted
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    columns: np.ndarray  # (C,): numbers of the fitted labels among all labels
    vectors: np.ndarray  # (N, D + r)
    neighbor_label_proportions: np.ndarray  # (N, L)
    nearest: NearestTexts
    votes: np.ndarray  # (N, k + m): weights of the nearest texts
    closeness: np.ndarray | None  # (N,): mean cosine to the nearest examples; None unless requested
    closeness_to_documents: np.ndarray | None  # (N,): mean cosine to the nearest documents; None if not used

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
) -> ScoredTexts:
    """Score N texts by all experts, and pool the scores.

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
    ensemble = experts.fitted.ensemble
    if exclude_copies:  # rounded to the dtype of the keys, so that a text equals its stored key
        embeddings = embeddings.astype(experts.view.dtype, copy=False)
    scores = score_by_expert(
        experts.view,
        ensemble,
        experts.places,
        embeddings,
        texts,
        head_logits,
        passages=passages,
        exclude_copies=exclude_copies,
        min_neighbors=min_neighbors,
    )
    columns = ensemble.label_columns(scores.nearest.label_names)
    weights = np.array(list(experts.fitted.settings.weights.values()))
    closeness = None
    document_closeness = None
    if with_closeness:
        mean = ensemble.document_vectors.mean
        closeness = closeness_to_examples(scores.nearest, embeddings, mean)
        if experts.fitted.settings.compares_with_documents and scores.nearest.documents is not None:
            document_closeness = closeness_to_documents(scores.nearest, embeddings, mean)
    return ScoredTexts(
        probabilities=ensemble_probabilities(scores, ensemble, columns, weights),
        weighted_logits=weights[:, None, None] * scores.logits,
        words=scores.words,
        columns=columns,
        vectors=scores.vectors,
        neighbor_label_proportions=scores.neighbor_label_proportions,
        nearest=scores.nearest,
        votes=scores.votes,
        closeness=closeness,
        closeness_to_documents=document_closeness,
    )


def vectors_of_examples(experts: PreparedExperts) -> np.ndarray:
    """Vectors of the examples, ``(n, D + r)``."""
    snapshot = experts.view.all()
    ensemble = experts.fitted.ensemble
    return ensemble.document_vectors.join(snapshot.keys, ensemble.word_features(texts_in(snapshot.rows)))
