"""Fitted experts with their weights, and their answers to new texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.snapshot import FittedState
from ..rejection import familiarity
from .corpus import DocumentVectors, texts_in
from .document_places import DocumentPlaces, places_of_documents
from .fit_settings import FitSettings
from .guarantees import Guarantees, HeldOutAnswers
from .registry import EXPERTS, Learned
from .saved_state import HELD_OUT_PREFIX, PROPORTION_DRAWS, PROPORTIONS, SHIFT, SOFT_LABELS, check_state, sizes_of
from .scoring import (
    Ensemble,
    closeness_to_documents,
    closeness_to_examples,
    ensemble_probabilities,
    score_by_expert,
)
from .tfidf import saved_words

if TYPE_CHECKING:
    import scipy.sparse as sp

    from ...datastore.store import View
    from ...encoders.chunking import Passages
    from .neighbor_expert import NearestTexts


class FittedExperts(NamedTuple):
    """Everything that ``fit`` learned from a datastore."""

    settings: FitSettings
    ensemble: Ensemble
    guarantees: Guarantees

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
        """Hashes of the texts of the corpus, int64 ``(N,)``."""
        return self.ensemble.ids

    @property
    def held_out(self) -> HeldOutAnswers:
        """Answers to the held-out texts."""
        return self.guarantees.held_out

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
            document_vectors=document_vectors,
            vectorizer=saved_words(state.vocabulary, arrays["idf"]),
            learned=learned,
            ids=arrays["ids"],
        )
        held_out = HeldOutAnswers(
            ids=arrays[f"{HELD_OUT_PREFIX}ids"],
            probabilities=arrays[f"{HELD_OUT_PREFIX}probabilities"],
            labels=arrays[f"{HELD_OUT_PREFIX}labels"],
            familiarity=arrays[f"{HELD_OUT_PREFIX}familiarity"],
        )
        guarantees = Guarantees(
            held_out=held_out,
            proportion_draws=arrays.get(PROPORTION_DRAWS, np.zeros((0, len(settings.labels)), np.float32)),
            multi_label=settings.multi_label,
            default_lost=settings.report.novelty,
        )
        return cls(settings, ensemble, guarantees)


class ScoredTexts(NamedTuple):
    """Probabilities of N texts, and what they were computed from."""

    probabilities: np.ndarray  # (N, L), over all labels of the datastore
    scores: np.ndarray  # (E, N, C): weighted logits of each expert, over the labels that were fitted
    words: sp.csr_matrix | None  # TF-IDF (N, V)
    columns: np.ndarray  # (C,): numbers of the fitted labels among all labels
    vectors: np.ndarray  # (N, D + r)
    neighbor_label_proportions: np.ndarray  # (N, L)
    nearest: NearestTexts
    votes: np.ndarray  # (N, k + m): weights of the nearest texts
    closeness: np.ndarray | None  # (N,): mean cosine to the nearest examples, on request
    to_documents: np.ndarray | None  # (N,): the same to the nearest documents, if familiarity compares the two

    def familiarity(self) -> np.ndarray:
        """Familiarity of the texts, ``(N,)``."""
        proportions = self.neighbor_label_proportions
        return familiarity(self.probabilities, proportions, self.closeness, self.to_documents)


class ReadyExperts(NamedTuple):
    """Fitted experts prepared for one view of a store, to score many texts."""

    view: View
    fitted: FittedExperts
    places: DocumentPlaces

    @classmethod
    def of(cls, view: View, fitted: FittedExperts) -> ReadyExperts:
        """Prepare fitted experts: examples vote by their present labels, documents by those propagated in ``fit``."""
        places = places_of_documents(view, fitted.ensemble.ids, fitted.settings.report.documents)
        return cls(view, fitted, places)


def ready_experts(view: View, before: ReadyExperts | None = None) -> ReadyExperts | None:
    """Prepare the experts of a view, or reuse ``before`` if nothing changed; None if nothing was fitted."""
    if view.fitted is None:
        return None
    if before is not None and before.view is view:
        return before
    check_state(view.fitted, view)
    is_same_fit = before is not None and before.view.fitted is view.fitted
    fitted = before.fitted if is_same_fit else FittedExperts.from_state(view.fitted)
    return ReadyExperts.of(view, fitted)


def score_texts(
    ready: ReadyExperts,
    embeddings: np.ndarray,
    texts: list[str],
    head_logits: np.ndarray | None,
    passages: Passages | None = None,
    without_equal: bool = False,
    with_closeness: bool = False,
    least_neighbors: int = 0,
) -> ScoredTexts:
    """Score N texts by all experts, and pool the scores.

    Args:
        ready: The experts.
        embeddings: ``(N, D)``.
        texts: The texts; pairs are joined.
        head_logits: Logits of a trained classifier, ``(N, H)``, over the first H labels; without one, H is 0.
        passages: Embeddings of passages, if texts have several.
        without_equal: Whether to leave out the texts themselves and their copies as neighbors.
        with_closeness: Whether to measure how close the texts are to examples, for their familiarity.
        least_neighbors: How many neighbors to find, whether they vote or not.

    Returns:
        The scores and probabilities. Labels that came after ``fit`` get the probability that the neighbors give them;
        the others share the rest.
    """
    ensemble = ready.fitted.ensemble
    if without_equal:  # or a text would not be equal to its own key in half precision
        embeddings = embeddings.astype(ready.view.dtype, copy=False)
    scores = score_by_expert(
        ready.view,
        ensemble,
        ready.places,
        embeddings,
        texts,
        head_logits,
        passages=passages,
        without_equal=without_equal,
        least_neighbors=least_neighbors,
    )
    columns = ensemble.label_columns(scores.nearest.label_names)
    weights = np.array(list(ready.fitted.settings.weights.values()))
    closeness = None
    to_documents = None
    if with_closeness:
        mean = ensemble.document_vectors.mean
        closeness = closeness_to_examples(scores.nearest, embeddings, mean)
        if ready.fitted.settings.compares_with_documents and scores.nearest.documents is not None:
            to_documents = closeness_to_documents(scores.nearest, embeddings, mean)
    return ScoredTexts(
        probabilities=ensemble_probabilities(scores, ensemble, columns, weights),
        scores=weights[:, None, None] * scores.logits,
        words=scores.words,
        columns=columns,
        vectors=scores.vectors,
        neighbor_label_proportions=scores.neighbor_label_proportions,
        nearest=scores.nearest,
        votes=scores.votes,
        closeness=closeness,
        to_documents=to_documents,
    )


def vectors_of_examples(ready: ReadyExperts) -> np.ndarray:
    """Vectors of the examples, ``(n, D + r)``."""
    snapshot = ready.view.all()
    ensemble = ready.fitted.ensemble
    return ensemble.document_vectors.join(snapshot.keys, ensemble.word_features(texts_in(snapshot.rows)))
