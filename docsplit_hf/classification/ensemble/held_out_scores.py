"""What the experts say of labeled texts that they did not learn from: folds of the examples, or held-out texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.duplicates import number_texts
from ...datastore.row_table import take_passages
from ..rejection import closeness
from .corpus import texts_in
from .expert import Asked, Lesson
from .neighbor_expert import nearest_of_both, vote
from .registry import SHIFT, SOFT, ask_all, first_lesson, fit_all
from .scoring import FittedExperts, ReadyExperts, ask_experts, closeness_to_documents
from .word_experts import fit_vocabulary, vocabulary_scores, word_counts

if TYPE_CHECKING:
    import scipy.sparse as sp
    from tqdm import tqdm

    from ...datastore.snapshot import SearchResult, Snapshot
    from .corpus import Corpus


LABEL_ID = "label:"  # ids of examples that are descriptions of labels begin so: nothing is measured on them
FOLDS, FEWER_FOLDS, MANY_EXAMPLES = 5, 3, 2_000


class HeldOut(NamedTuple):
    """M labeled texts that are not among the examples."""

    embeddings: np.ndarray  # (M, D)
    texts: list[str]  # those of a pair joined
    labels: np.ndarray  # int64 (M,) or bool (M, L), of all labels of the datastore
    logits: np.ndarray | None  # (M, H) by the trained classifier, if there is one


class HeldOutScores(NamedTuple):
    """What is said of m texts that were held out."""

    scores: np.ndarray  # (E, m, C): the logits of each expert
    targets: np.ndarray  # (m, C), 0 or 1
    shares: np.ndarray  # (m, C): of the labels among the neighbors
    closeness: np.ndarray  # (m,): to the nearest examples
    to_documents: np.ndarray | None  # (m,): the same to the nearest documents, where there are any
    ids: np.ndarray  # int64 (m,): of the examples, as the corpus has them; 0 of texts that are none
    word_counts: np.ndarray | None  # (m, C): probabilities by a regression on words, where there are any
    shift: np.ndarray  # (m, C): from the proportions of the labels that were learned from


def one_hot(labels: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Labels as float32 ``(n, C)`` of 0 and 1, for some of the labels."""
    return (labels[:, columns] if labels.ndim == 2 else labels[:, None] == columns).astype(np.float32)


def are_texts(snapshot: Snapshot) -> np.ndarray:
    """Which examples are texts, not descriptions of labels, bool ``(n,)``."""
    return np.array([not row_id.startswith(LABEL_ID) for row_id in snapshot.rows["id"].to_pylist()])


def folds_of(snapshot: Snapshot, places: np.ndarray) -> np.ndarray:
    """The fold of each example, or -1, whatever order they and their labels came in: ``places`` are in the corpus."""
    rows = np.arange(len(snapshot.keys))
    table = snapshot.rows.select(["text", "text_pair"]).to_pydict()
    groups = number_texts(snapshot.rows, *table.values())[0]
    groups = np.where(groups < 0, groups.max(initial=0) + 1 + rows, groups)  # texts that are not kept: all different
    groups = _first_places(groups, places)
    labels = snapshot.labels if snapshot.multi_label else _first_places(snapshot.labels, places)
    return assign_folds(labels, groups, are_texts(snapshot))


def _first_places(numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
    """For each number the first place of those that have it: a number that no order has a say in."""
    first = np.full(numbers.max(initial=0) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, places)
    return first[numbers]


def scores_by_folds(
    lesson: Lesson,
    voters: Voters,
    folds: np.ndarray,
    experts: list[str],
    proportions: np.ndarray | None,
    example_weight: float,
    progress: tqdm,
) -> HeldOutScores:
    """Of all examples of a lesson that are in a fold, by experts that learn from the others."""
    corpus, rows, targets, several = lesson[:4]
    scores = np.zeros((len(experts), *targets.shape))
    shares, shift = np.zeros(targets.shape), np.zeros(targets.shape)
    near, embeddings = np.zeros(len(targets)), corpus.document_vectors.embeddings_of(corpus.vectors[rows])
    words, by_words = None if corpus.words is None else corpus.words[rows], np.zeros(targets.shape)
    for fold in range(int(folds.max()) + 1):
        learned, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        given = rows[learned], targets[learned], several, False, example_weight
        part = first_lesson(corpus, *given, lesson.names, lesson.is_text[learned])
        found = fit_all(part, experts, proportions)
        shift[asked] = found[SHIFT]
        shares[asked] = vote(voters.weights[asked], voters.places[asked], found[SOFT])
        texts = corpus.vectors[rows[asked]], corpus.whitened[rows[asked]], None if words is None else words[asked]
        scores[:, asked] = ask_all(found, experts, Asked(*texts, shares[asked], None, several))
        near[asked] = closeness(embeddings[asked], embeddings[learned])
        if words is not None:
            by_words[asked] = _by_words(found, words[learned], targets[learned], several, words[asked])
        progress.update()
    held_out = folds >= 0
    ids = corpus.ids[rows]
    by_words = None if words is None else by_words[held_out]
    return HeldOutScores(
        scores=scores[:, held_out],
        targets=targets[held_out],
        shares=shares[held_out],
        closeness=near[held_out],
        to_documents=None if voters.to_documents is None else voters.to_documents[held_out],
        ids=ids[held_out],
        word_counts=by_words,
        shift=shift[held_out],
    )


class Voters(NamedTuple):
    """The neighbors of R texts of a corpus, without the text itself and its copies. Labels change none of it."""

    places: np.ndarray  # int64 (R, k): in the corpus
    weights: np.ndarray  # float64 (R, k)
    temperature: float
    to_documents: np.ndarray | None  # float64 (R,): the closeness to the nearest documents, where there are any


def voters_in_corpus(snapshot: Snapshot, corpus: Corpus, order: np.ndarray) -> Voters:
    """The neighbors of the examples, in some ``order`` of these."""
    embeddings = snapshot.keys[order]
    passages = take_passages(snapshot.passages, order)

    def places_of(found: SearchResult) -> np.ndarray:
        return corpus.documents[found.rows]

    unknown = int(np.count_nonzero(corpus.documents < 0))
    nearest = nearest_of_both(snapshot, embeddings, passages, places_of, unknown, without_equal=True)
    temperature = nearest.temperature()
    places = [corpus.rows[nearest.examples.rows]]
    to_documents = None
    if nearest.documents is not None:
        places.append(nearest.places)
        mean = corpus.document_vectors.mean
        to_documents = closeness_to_documents(nearest, embeddings, mean)
    return Voters(np.hstack(places), nearest.weights(temperature), temperature, to_documents)


def scores_of_held_out(
    fitted: FittedExperts, snapshot: Snapshot, held_out: HeldOut, columns: np.ndarray, targets: np.ndarray
) -> HeldOutScores:
    """Of held-out texts that have a label which the examples have."""
    usable = np.flatnonzero(targets.any(1)) if held_out.labels.ndim == 1 else np.arange(len(targets))
    if not len(usable):
        raise ValueError("No held-out text has a label that the examples have: fit on others, or on none (folds).")
    texts, logits = [held_out.texts[i] for i in usable], held_out.logits
    ready = ReadyExperts.of(snapshot, fitted)
    logits = None if logits is None else logits[usable]
    embeddings, no_ids = held_out.embeddings[usable], np.zeros(len(usable), np.int64)
    answers = ask_experts(ready, embeddings, texts, logits, without_equal=True, with_closeness=True)
    words, by_words = fitted.count_words(texts_in(snapshot.rows)), None
    if words is not None:
        learned = one_hot(snapshot.labels, columns)
        by_words = _by_words(fitted.learned, words, learned, fitted.several, answers.words)
    shift = np.tile(fitted.learned[SHIFT], (len(usable), 1))
    return HeldOutScores(
        scores=answers.scores,
        targets=targets[usable],
        shares=answers.shares[:, columns],
        closeness=answers.closeness,
        to_documents=answers.to_documents,
        ids=no_ids,
        word_counts=by_words,
        shift=shift,
    )


def _by_words(
    learned: dict[str, np.ndarray], words: sp.csr_matrix, targets: np.ndarray, several: bool, asked: sp.csr_matrix
) -> np.ndarray:
    """Probabilities by a regression on words: that of the expert, or one of the same kind where there is none."""
    regression = learned.get("vocabulary")
    if regression is None:
        regression = fit_vocabulary(words, targets, several)
    return word_counts(vocabulary_scores(asked, regression), several)


def assign_folds(labels: np.ndarray, groups: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """The fold of each example, int64 ``(n,)``, the same each time; -1 for one that is always learned from.

    These are what is not ``held_out``, and the only example of a label ``(n,)``, unless texts may have several
    ``(n, C)``. Examples of equal ``groups`` (copies) are in one fold.
    """
    rng = np.random.default_rng(0)
    count = FOLDS if len(groups) <= MANY_EXAMPLES else FEWER_FOLDS
    distinct, groups = np.unique(groups, return_inverse=True)
    folds = np.full(len(distinct), -1)  # of each group
    strata = labels if labels.ndim == 1 else np.zeros(len(groups), np.int64)
    members = [np.unique(groups[strata == stratum]) for stratum in np.unique(strata)]
    always = np.unique(groups[~held_out])
    for stratum in members:
        asked = rng.permutation(np.setdiff1d(stratum, always))
        start = rng.integers(count)
        if len(stratum) > 1:  # a copy with another label has its fold already
            folds[asked] = np.where(folds[asked] < 0, (start + np.arange(len(asked))) % count, folds[asked])
    for stratum in members:
        if len(np.unique(folds[stratum])) == 1:  # nothing of the label would be left to learn from
            folds[stratum] = -1
    used = np.unique(folds[folds >= 0])
    return np.where(folds < 0, -1, np.searchsorted(used, folds))[groups]
