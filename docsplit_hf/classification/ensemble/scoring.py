"""FittedExperts: the experts of a datastore with their weights, as data, checked, and what they say of new texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...datastore.keys import as_float32
from ...datastore.row_table import rows_at
from ...datastore.snapshot import FittedState
from ..rejection import (
    NEAREST,
    NEAREST_DOCUMENTS,
    NOVEL,
    answer_level,
    confidence,
    familiarity,
    least_error,
    most_novel,
    novelty,
    text_counts,
)
from .corpus import DocumentVectors, id_numbers, texts_in, unit
from .expert import Asked, Sizes
from .log_linear_pool import pool
from .neighbor_expert import Nearest, nearest_of_both, vote
from .registry import EXPERTS, PROPORTIONS, SHIFT, SOFT, ask_all
from .state_values import fault_of_values, is_possible
from .tfidf import saved_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer

    from ...datastore.snapshot import SearchResult
    from ...datastore.store import View
    from ...encoders.chunking import Passages

LARGER_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)  # of which the smallest possible one is named
NOTHING_HELD_OUT = (
    "Nothing tells how often answers are wrong, and what is novel: each label has one example, or its description "
    "alone. Add examples, and fit() again; or fit(texts, labels) on held-out texts."
)
PREFIX = "held_out_"
PROPORTION_DRAWS = "proportion_draws"  # (B, C): what the proportions of the labels may be
BESIDE_DOCUMENTS = "beside_documents"  # whether familiarity compares examples with documents: these are of other labels


class FittedExperts(NamedTuple):
    """What ``fit`` made of a datastore, ready to be asked."""

    settings: dict[str, Any]  # see fit_experts
    document_vectors: DocumentVectors
    vectorizer: TfidfVectorizer | None
    learned: Mapping[str, np.ndarray]  # by the experts, by name
    ids: np.ndarray  # int64 (N,): of the corpus
    held_out: HeldOutAnswers | None  # None while the weights are chosen
    # (B, C): what the proportions of the labels may be; B is 0 where they are taken as the held-out texts have them
    proportion_draws: np.ndarray = np.zeros((0, 0), np.float32)

    @property
    def experts(self) -> list[str]:
        """The names of the experts."""
        return list(self.settings["weights"])

    @property
    def labels(self) -> list[str]:
        """The names of the labels that had examples, in the order of all arrays."""
        return self.settings["labels"]

    @property
    def several(self) -> bool:
        """Whether a text may have several labels."""
        return self.settings["several"]

    def thresholds(self, label_names: Sequence[str]) -> np.ndarray | None:
        """The least probability at which a text has each label, 0.5 if it came after fit; None if texts have one."""
        if not self.several:
            return None
        own = dict(zip(self.labels, self.settings["thresholds"], strict=True))
        return np.array([own.get(name, 0.5) for name in label_names])

    def places(self, ids: np.ndarray) -> np.ndarray:
        """The places of ``id_numbers`` in the corpus, int64; -1 if they are not in it."""
        order = np.argsort(self.ids, kind="stable")
        found = order[np.searchsorted(self.ids, ids, sorter=order).clip(0, len(order) - 1)]
        return np.where(self.ids[found] == ids, found, -1)

    def text_counts(self) -> np.ndarray:
        """How many texts each held-out one stands for, ``(B, m)``."""
        return text_counts(self.held_out.labels, self.proportion_draws)

    def novelty(self, familiarity: np.ndarray) -> np.ndarray:
        """How novel texts are, beside the held-out ones."""
        self._require_held_out()
        return novelty(familiarity, self.held_out.familiarity)

    def confidence(self, probabilities: np.ndarray, novelty: np.ndarray, most_lost: float | None = None) -> np.ndarray:
        """How sure answers are, ``(N,)``; 0 of texts that are too novel, where so many known ones may be lost."""
        return confidence(probabilities, novelty, self.most_novel(most_lost))

    def most_novel(self, most_lost: float | None = None) -> float:
        """The highest novelty of a text that gets an answer, if a share of known texts may be lost; None: as fitted."""
        self._require_held_out()
        most_lost = self.settings.get("novelty", 0.0) if most_lost is None else most_lost
        if not most_lost:
            return NOVEL
        return min(NOVEL, most_novel(self.novelty(self.held_out.familiarity), most_lost, self.text_counts()))

    def share_lost(self, most_lost: float | None = None) -> float:
        """The share of the held-out texts that are more novel than that."""
        is_lost = self.novelty(self.held_out.familiarity) > self.most_novel(most_lost)
        return self._share(is_lost)

    def answer_level(self, error: float, most_lost: float | None = None) -> float:
        """The lowest confidence at which answers are wrong at most so often; infinity if nothing guarantees that.

        A limit to novelty does not lower it, unless nothing can be guaranteed without that limit: once the novel texts
        are left out, which are often wrong, less confident answers would be allowed, to other foreign texts, too.
        """
        if self.several:
            raise ValueError("reject is for one label per text: here a text has those that reach their thresholds.")
        level = self._tested_level(error, most_lost)
        level_without_limit = self._tested_level(error, most_lost=0.0)
        return max(level, level_without_limit) if np.isfinite(level_without_limit) else level

    def _tested_level(self, error: float, most_lost: float | None) -> float:
        return answer_level(self.held_out_confidence(most_lost), self.held_out.right, error, self.text_counts())

    def share_answered(self, error: float, most_lost: float | None = None) -> float:
        """The share of the texts that get an answer then, as the held-out ones show it."""
        if not len(self.held_out.ids):
            return 0.0
        return self._share(self.held_out_confidence(most_lost) >= self.answer_level(error, most_lost))

    def least_error(self) -> float:
        """The lowest error that the held-out texts can guarantee."""
        if not len(self.held_out.ids):
            return 1.0
        has_answer = self.held_out_confidence() > 0
        return least_error(self.text_counts()[:, has_answer])

    def promise(self) -> str:
        """Which error can be guaranteed, as a sentence."""
        count, least = len(self.held_out.ids), self.least_error()
        possible = [error for error in LARGER_ERRORS if np.isfinite(self.answer_level(error))]
        found = f"Here they guarantee {possible[0]:g}" if possible else "They guarantee nothing: too many are wrong"
        return (
            f"The lowest error that {count:,} held-out texts can guarantee is {least:.3g}, if all their answers are "
            f"right. {found}. More examples allow a lower one, and so do corrected labels: audit()."
        )

    def held_out_confidence(self, most_lost: float | None = None) -> np.ndarray:
        """How sure the answers to the held-out texts were, ``(m,)``."""
        own = self.novelty(self.held_out.familiarity)
        return self.confidence(self.held_out.probabilities, own, most_lost)

    def _share(self, chosen: np.ndarray) -> float:
        """Of the texts that the held-out ones ``(m,)`` stand for, in the mean over what the proportions may be."""
        counts = self.text_counts()
        return float(((counts * chosen).sum(1) / counts.sum(1)).mean())

    def _require_held_out(self) -> None:
        if not len(self.held_out.ids):
            raise ValueError(NOTHING_HELD_OUT)

    def to_state(self) -> FittedState:
        """As data, for the datastore."""
        terms = () if self.vectorizer is None else tuple(self.vectorizer.get_feature_names_out().tolist())
        idf = np.zeros(0, np.float32) if self.vectorizer is None else self.vectorizer.idf_
        held_out = {f"{PREFIX}{name}": array for name, array in self.held_out._asdict().items()}
        arrays = {**self.document_vectors._asdict(), **self.learned}
        arrays |= {"ids": self.ids, "idf": idf, PROPORTION_DRAWS: self.proportion_draws, **held_out}
        return FittedState(self.settings, arrays, terms)

    @classmethod
    def from_state(cls, state: FittedState) -> FittedExperts:
        """The experts of a state; their answers are the same to the bit."""
        arrays = state.arrays
        vectors = DocumentVectors(*(arrays[name] for name in DocumentVectors._fields))
        own = {*DocumentVectors._fields, "ids", "idf", PROPORTION_DRAWS}
        learned = {name: a for name, a in arrays.items() if name not in own and not name.startswith(PREFIX)}
        words = saved_words(state.vocabulary, arrays["idf"])
        held_out = HeldOutAnswers(*(arrays[f"{PREFIX}{name}"] for name in HeldOutAnswers._fields))
        draws = arrays.get(PROPORTION_DRAWS, np.zeros((0, len(state.settings["labels"])), np.float32))
        return cls(state.settings, vectors, words, learned, arrays["ids"], held_out, draws)

    def count_words(self, texts: list[str]) -> sp.csr_matrix | None:
        """The words of texts, TF-IDF ``(N, V)``."""
        return None if self.vectorizer is None else self.vectorizer.transform(texts)


class Answers(NamedTuple):
    """What the experts say of N texts."""

    probabilities: np.ndarray  # (N, L), over all labels of the datastore
    scores: np.ndarray  # (E, N, C): the logits of each expert times its weight, over the labels that were fitted
    words: sp.csr_matrix | None
    columns: np.ndarray  # (C,): which of all labels were fitted
    vectors: np.ndarray  # (N, D + r)
    shares: np.ndarray  # (N, L): of the labels among the neighbors
    nearest: Nearest
    votes: np.ndarray  # (N, k + m): what each of the nearest counts
    closeness: np.ndarray | None  # (N,): to the nearest examples, where it was asked for
    to_documents: np.ndarray | None  # (N,): the same to the nearest documents, where familiarity compares the two

    def familiarity(self) -> np.ndarray:
        """How familiar the texts are, ``(N,)``."""
        return familiarity(self.probabilities, self.shares, self.closeness, self.to_documents)


class ReadyExperts(NamedTuple):
    """Fitted experts and the view of the store that they search."""

    view: View
    fitted: FittedExperts
    places: np.ndarray | None  # int64 (m,): of all documents in the corpus, or -1; None if they are on a server

    @classmethod
    def of(cls, view: View, fitted: FittedExperts) -> ReadyExperts:
        """Examples vote by the labels that they have now, documents by those that were spread to them."""
        if not view.is_local:
            return cls(view, fitted, None)
        documents = view.all().documents
        if documents is None:
            return cls(view, fitted, np.zeros(0, np.int64))
        return cls(view, fitted, fitted.places(id_numbers(documents.rows, documents.keys)))

    @property
    def unknown(self) -> int:
        """How many documents are not in the corpus: at least so many, if documents are on a server."""
        if self.places is None:
            return max(self.view.count("documents") - self.fitted.settings["documents"], 0)
        return int(np.count_nonzero(self.places < 0))

    def places_of(self, documents: SearchResult) -> np.ndarray:
        """The places in the corpus of documents that were found, int64 ``(Q, m)``; -1 if they are not in it."""
        if self.places is not None:
            return self.places[documents.rows]
        rows, where = np.unique(documents.rows, return_inverse=True)
        numbers = id_numbers(rows_at(documents.table, rows), documents.keys[rows])
        return self.fitted.places(numbers)[where].reshape(documents.rows.shape)


def ready_experts(view: View, before: ReadyExperts | None = None) -> ReadyExperts | None:
    """The experts of a view, those of ``before`` where nothing changed; None where nothing was fitted."""
    if view.fitted is None:
        return None
    if before is not None and before.view is view:
        return before
    check_state(view.fitted, view)
    is_known = before is not None and before.view.fitted is view.fitted
    fitted = before.fitted if is_known else FittedExperts.from_state(view.fitted)
    return ReadyExperts.of(view, fitted)


def ask_experts(
    ready: ReadyExperts,
    embeddings: np.ndarray,
    texts: list[str],
    logits: np.ndarray | None,
    passages: Passages | None = None,
    without_equal: bool = False,
    with_closeness: bool = False,
    shown: int = 0,
) -> Answers:
    """Ask all experts about N texts, by their embeddings ``(N, D)``, maybe of passages too, and words.

    ``logits`` ``(N, H)`` are those of a trained classifier, over the first H labels; without one, H is 0. Labels that
    came after ``fit`` have the probability that the neighbors give them; the others share the rest. ``shown``: how many
    neighbors to look up at least, whether they vote or not.
    """
    fitted = ready.fitted
    if without_equal:  # or a text would not be equal to its own key in half precision
        embeddings = embeddings.astype(ready.view.dtype, copy=False)
    words = fitted.count_words(texts)
    vectors = fitted.document_vectors.join(embeddings, words)
    nearest = nearest_of_both(
        ready.view, embeddings, passages, ready.places_of, ready.unknown, without_equal, least=shown
    )
    label_names = nearest.examples.label_names  # on a server there may be more than when the view was made
    columns = np.array([label_names.index(name) for name in fitted.labels])
    votes = nearest.weights(fitted.settings["temperature"])
    shares = _shares(ready, nearest, votes, columns)
    known = shares[:, columns]
    if not fitted.several:
        known = known / np.maximum(known.sum(1, keepdims=True), 1e-12)
    head = None if logits is None or not logits.shape[1] else logits_of(logits, columns)
    whitened = fitted.document_vectors.whitened(vectors)
    scores = ask_all(fitted.learned, fitted.experts, Asked(vectors, whitened, words, known, head, fitted.several))
    weights = np.array(list(fitted.settings["weights"].values()))
    fitted_probabilities = pool(scores, weights, fitted.several, fitted.learned[SHIFT])
    probabilities = shares.copy()
    new = np.setdiff1d(np.arange(shares.shape[1]), columns)
    rest = 1.0 if fitted.several else 1 - shares[:, new].sum(1, keepdims=True)
    probabilities[:, columns] = rest * fitted_probabilities
    to_examples, to_documents = None, None
    if with_closeness:
        mean = fitted.document_vectors.mean
        to_examples = closeness_to_examples(nearest, embeddings, mean)
        if fitted.settings.get(BESIDE_DOCUMENTS, False) and nearest.documents is not None:
            to_documents = closeness_to_documents(nearest, embeddings, mean)
    weighted = weights[:, None, None] * scores
    return Answers(probabilities, weighted, words, columns, vectors, shares, nearest, votes, to_examples, to_documents)


def _shares(ready: ReadyExperts, nearest: Nearest, votes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The shares of all labels in the votes, ``(N, L)``."""
    found, count = nearest.examples, nearest.examples.rows.shape[1]
    given = found.labels if found.labels.ndim == 3 else found.labels[..., None] == np.arange(len(found.label_names))
    shares = np.einsum("qk,qkl->ql", votes[:, :count], given)
    if nearest.documents is not None:
        shares[:, columns] += vote(votes[:, count:], nearest.places, ready.fitted.learned[SOFT])
    return shares


def logits_of(logits: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The logits of some labels by a trained classifier; the text's mean for those that came after its training.

    Anything low would be an outlier in the spread of its logits, and silence it on its own.
    """
    missing = max(columns.max() + 1 - logits.shape[1], 0)
    return np.hstack([logits, np.repeat(logits.mean(1, keepdims=True), missing, axis=1)])[:, columns]


def closeness_to_examples(nearest: Nearest, embeddings: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The mean cosine of the 5 nearest examples, ``(N,)``, among those that the search found."""
    count = nearest.examples.rows.shape[1]
    found = np.isfinite(nearest.distances[:, :count])
    return _mean_cosine(embeddings, nearest.examples, mean, found, NEAREST)


def closeness_to_documents(nearest: Nearest, embeddings: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The same of the 20 nearest documents; 0 where none was found that was there when all was fitted."""
    count = nearest.examples.rows.shape[1]
    found = np.isfinite(nearest.distances[:, count:])
    return _mean_cosine(embeddings, nearest.documents, mean, found, NEAREST_DOCUMENTS)


def _mean_cosine(
    embeddings: np.ndarray, nearest: SearchResult, mean: np.ndarray, found: np.ndarray, count: int
) -> np.ndarray:
    """Of embeddings ``(N, D)`` less the mean, to the ``count`` nearest rows, among those that were ``found``."""
    cosines = np.full(found.shape, -np.inf)
    for number, of_one in enumerate(nearest.rows):
        near = unit(as_float32(nearest.keys[of_one]) - mean) @ unit(embeddings[[number]] - mean)[0]
        cosines[number] = np.where(found[number], near, -np.inf)
    best = -np.sort(-cosines, axis=1)[:, :count]
    there = np.isfinite(best)
    return np.where(there, best, 0).sum(1) / np.maximum(there.sum(1), 1)


def vectors_of_examples(ready: ReadyExperts) -> np.ndarray:
    """The vectors of the examples, ``(n, D + r)``."""
    snapshot, fitted = ready.view.all(), ready.fitted
    return fitted.document_vectors.join(snapshot.keys, fitted.count_words(texts_in(snapshot.rows)))


class HeldOutAnswers(NamedTuple):
    """Of m texts: examples in folds, or texts that were given to choose by."""

    ids: np.ndarray  # int64 (m,): of the examples, as the corpus has them; 0 of texts that are none
    probabilities: np.ndarray  # float32 (m, C)
    labels: np.ndarray  # bool (m, C): what they had when all was fitted
    familiarity: np.ndarray  # float32 (m,)

    @property
    def right(self) -> np.ndarray:
        """Whether the most probable label was right, bool ``(m,)``."""
        return np.take_along_axis(self.labels, self.probabilities.argmax(1)[:, None], 1)[:, 0]


KINDS = {"ids": "i", "held_out_ids": "i", "held_out_labels": "b"}  # of arrays that are not floats
LARGEST_WEIGHT = 1e6  # the logits of an expert spread over at least a millionth
LARGEST_TEMPERATURE = 1e32  # a squared distance stays below


def check_state(state: FittedState, view: View) -> None:
    """Refuse settings of other types, arrays of other shapes, and labels that the datastore does not have."""
    settings, arrays = state.settings, state.arrays
    labels, weights = settings.get("labels"), settings.get("weights")
    _require(_is_list_of(labels, str) and labels and set(labels) <= set(view.label_names), "labels", labels)
    _require(settings.get("several") is view.multi_label, "several", settings.get("several"))
    known = isinstance(weights, dict) and weights and set(weights) <= set(EXPERTS)
    _require(known and _is_list_of(list(weights.values()), float), "weights", weights)
    _require(len(set(labels)) == len(labels), "labels", labels)
    _require(all(0 <= weight <= LARGEST_WEIGHT for weight in weights.values()), "weights", weights)
    _require(len(set(state.vocabulary)) == len(state.vocabulary), "vocabulary", "with a term twice")
    for name, array in arrays.items():
        _require(array.dtype.kind == KINDS.get(name, "f"), name, array.dtype.name)
        _require(array.ndim > 0 and (name != "ids" or len(array)), name, array.shape)
    terms, classes, dimension = len(state.vocabulary), len(labels), view.dimension
    temperature = settings.get("temperature")
    is_temperature = isinstance(temperature, float) and 0 < temperature <= LARGEST_TEMPERATURE
    _require(is_temperature, "temperature", temperature)
    texts, word_dimensions = (arrays[name].shape[0] if name in arrays else 0 for name in ("ids", "components"))
    joined, held_out = dimension + word_dimensions, arrays["held_out_ids"].size if "held_out_ids" in arrays else 0
    shapes = {
        "mean": [(dimension,)],
        "components": [(word_dimensions, terms), (0, 0)],
        "whitening": [(joined, joined)],
        SOFT: [(texts, classes)],
        SHIFT: [(classes,)],
        PROPORTIONS: [(classes,)],
        "ids": [(texts,)],
        "idf": [(terms,)],
        "held_out_ids": [(held_out,)],
        "held_out_probabilities": [(held_out, classes)],
        "held_out_labels": [(held_out, classes)],
        "held_out_familiarity": [(held_out,)],
    }
    if PROPORTION_DRAWS in arrays:  # what was fitted by the first version has none
        shapes[PROPORTION_DRAWS] = [(len(arrays[PROPORTION_DRAWS]), classes)]
    _require(isinstance(settings.get("has_head"), bool), "has_head", settings.get("has_head"))
    sizes = Sizes(classes, terms, joined, dimension, settings["has_head"])
    shapes |= {array: [shape] for name in weights for array, shape in EXPERTS[name].shapes(sizes).items()}
    _require(arrays.keys() == shapes.keys(), "arrays", sorted(arrays))
    for name, expected in shapes.items():
        _require(arrays[name].shape in expected, name, arrays[name].shape)
    fault = fault_of_values(arrays, settings["several"])
    if fault is not None:
        _require(False, *fault)
    _check_promises(settings, arrays)
    suggested = settings.get("suggested", [])
    _require(_is_list_of(suggested, str), "suggested", suggested)
    thresholds = settings.get("thresholds", [0.5] * classes)
    _require(_is_list_of(thresholds, float) and len(thresholds) == classes, "thresholds", thresholds)
    _require(all(0 <= threshold <= 1 for threshold in thresholds), "thresholds", thresholds)
    for name, value in settings.items():
        _require(is_possible(name, value), name, value)


def _check_promises(settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what promises are made for, where it cannot be; what was fitted by the first version has nothing of it."""
    draws = arrays.get(PROPORTION_DRAWS, np.zeros((0, 1), np.float32))
    are_shares = ((draws >= 0) & (draws <= 1)).all() and np.allclose(draws.sum(1), 1, atol=1e-3)
    _require(are_shares, PROPORTION_DRAWS, "not shares that add up to 1")
    lost = settings.get("novelty", 0.0)
    _require(isinstance(lost, float) and 0 <= lost < 1, "novelty", lost)
    is_compared = settings.get(BESIDE_DOCUMENTS, False)
    _require(isinstance(is_compared, bool), BESIDE_DOCUMENTS, is_compared)


def _is_list_of(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def _require(condition: Any, what: str, found: Any) -> None:
    if not condition:
        raise ValueError(f"What was fitted on this datastore does not fit it: {what} is {found!r}. Call fit() again.")
