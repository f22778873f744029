"""Scores of labeled texts that the experts were not fitted on: folds of the examples, or held-out texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...arrays.passages import take_passages
from ...arrays.row_table import DESCRIPTION_ID_PREFIX
from ...reading.versions import group_versions
from ..experts.expert import Corpus, Features, TrainingData
from ..experts.linear_probe import MANY_LABELS
from ..experts.neighbor_expert import (
    VOTERS,
    closeness_to_documents,
    nearest_texts,
    vote,
    without_versions,
)
from ..experts.registry import fit_all, start_in_folds
from ..rejection import closeness
from .scoring import PreparedExperts, score_all, score_texts

if TYPE_CHECKING:
    from tqdm import tqdm

    from ...arrays.snapshot import Snapshot
    from .fitted_ensemble import Ensemble
    from .problem import Problem


FOLDS = 5
FOLDS_OF_FEW_EXAMPLES = 10  # each example counts: without a fifth of them, all experts look worse than they are
FEW_EXAMPLES = 200
FOLDS_OF_MANY_EXAMPLES = 3
MANY_EXAMPLES = 2_000  # with more, there are fewer folds
ENOUGH_HELD_OUT = 1_000  # examples, of many labels: each further fold takes as long, and changes little
MAX_SKIPPED_VERSIONS = 100  # more neighbors of a text are searched, since its versions among them do not vote


class HeldOutScores(NamedTuple):
    """Scores and features of m held-out texts."""

    scores: np.ndarray  # (E, m, C): logits of each expert; float32 of folds
    targets: np.ndarray  # (m, C), 0 or 1
    neighbor_label_proportions: np.ndarray  # (m, C)
    closeness: np.ndarray  # (m,): mean cosine to the nearest examples
    to_documents: np.ndarray | None  # (m,): mean cosine to the nearest documents, if there are any
    ids: np.ndarray  # int64 (m,): hashes of the examples, as in the corpus; 0 for texts that are no examples
    shift: np.ndarray  # (m, C): correction for the label proportions that experts learned from
    is_counted: np.ndarray  # bool (m,): one text of each group of versions; the others are no independent evidence

    def counted(self) -> HeldOutScores:
        """Scores of one text of each group of versions."""
        chosen = self.is_counted
        return HeldOutScores(
            scores=self.scores[:, chosen],
            targets=self.targets[chosen],
            neighbor_label_proportions=self.neighbor_label_proportions[chosen],
            closeness=self.closeness[chosen],
            to_documents=None if self.to_documents is None else self.to_documents[chosen],
            ids=self.ids[chosen],
            shift=self.shift[chosen],
            is_counted=chosen[chosen],
        )


def one_hot(labels: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Encode labels as float32 ``(n, C)`` of 0 and 1, for the label numbers ``columns`` ``(C,)``."""
    return (labels[:, columns] if labels.ndim == 2 else labels[:, None] == columns).astype(np.float32)


def first_of_each_group(groups: np.ndarray) -> np.ndarray:
    """Mark the first text of each group of versions, ``(n,)``, bool ``(n,)``."""
    return np.isin(np.arange(len(groups)), np.unique(groups, return_index=True)[1])


def are_texts(snapshot: Snapshot) -> np.ndarray:
    """Whether each example is a text, not a label description, bool ``(n,)``."""
    return np.array([not row_id.startswith(DESCRIPTION_ID_PREFIX) for row_id in snapshot.rows["id"].to_pylist()])


def folds_of(snapshot: Snapshot, places: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Fold of each example, or -1, by its place in the corpus, ``(n,)``, and not by the order of examples or labels.

    Texts of the corpus with equal ``groups``, ``(N,)``, are in one fold. With many labels, as many folds are held out
    as have enough examples.
    """
    groups = _renumbered(groups[places], places)
    labels = snapshot.labels if snapshot.multi_label else _renumbered(snapshot.labels, places)
    folds = assign_folds(labels, groups, are_texts(snapshot))
    if len(snapshot.label_names) <= MANY_LABELS:
        return folds
    held_out = np.cumsum(np.bincount(folds[folds >= 0]))
    return np.where(folds <= np.searchsorted(held_out, ENOUGH_HELD_OUT), folds, -1)


def _renumbered(groups: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Renumber groups ``(n,)`` by the first place of a member in the corpus, independently of input order."""
    first = np.full(groups.max(initial=0) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, groups, places)
    return first[groups]


def scores_by_folds(
    data: TrainingData, voters: Voters, folds: np.ndarray, groups: np.ndarray, progress: tqdm
) -> HeldOutScores:
    """Score the examples of each fold by experts that are fitted on the other folds.

    ``groups`` ``(n,)``: examples with equal numbers are versions of one text, and in one fold.
    """
    corpus = data.corpus
    held_out = np.flatnonzero(folds >= 0)
    rows = data.rows[held_out]
    targets = data.targets[held_out]
    embeddings = corpus.document_vectors.embeddings_of(corpus.vectors[data.rows])
    scores = np.zeros((len(data.experts), *targets.shape), np.float32)
    label_proportions = np.zeros(targets.shape)
    shift = np.zeros(targets.shape)
    near = np.zeros(len(targets))
    parts = [data.of(np.flatnonzero(folds != fold)) for fold in range(int(folds.max()) + 1)]
    for fold, (part, start) in enumerate(zip(parts, start_in_folds(parts) if parts else (), strict=True)):
        test = np.flatnonzero(folds[held_out] == fold)
        examples = held_out[test]
        learned = fit_all(part, start)
        shift[test] = learned.shift
        # The other examples of the fold have no labels here, like documents. Without documents, all votes are equal.
        has_unequal_votes = data.has_documents and not data.multi_label
        votes = voters.votes(examples, part.text_weights) if has_unequal_votes else voters.weights[examples]
        label_proportions[test] = vote(votes, voters.places[examples], learned.soft_labels)
        features = Features(
            vectors=corpus.vectors[rows[test]],
            whitened=corpus.whitened[rows[test]],
            words=None if corpus.words is None else corpus.words[rows[test]],
            style=corpus.style[rows[test]],
            neighbor_label_proportions=label_proportions[test],
            head_logits=None,
            multi_label=data.multi_label,
        )
        scores[:, test] = score_all(learned.by_expert, data.experts, features)
        near[test] = closeness(embeddings[examples], embeddings[folds != fold])
        progress.update()
    return HeldOutScores(
        scores=scores,
        targets=targets,
        neighbor_label_proportions=label_proportions,
        closeness=near,
        to_documents=None if voters.to_documents is None else voters.to_documents[held_out],
        ids=corpus.ids[rows],
        shift=shift,
        is_counted=first_of_each_group(groups[held_out]),
    )


class Voters(NamedTuple):
    """Neighbors of R texts of a corpus, without the text itself, its copies and its versions; independent of labels."""

    places: np.ndarray  # int64 (R, k): places of the neighbors in the corpus
    weights: np.ndarray  # float64 (R, k): weights of the votes by distance; 0 for texts that do not vote
    temperature: float  # of the votes (equation 2)
    to_documents: np.ndarray | None  # float64 (R,): mean cosine to the nearest documents, if there are any

    def votes(self, rows: np.ndarray, text_weights: np.ndarray) -> np.ndarray:
        """Votes for some ``rows``, by distance and the weight of each text of the corpus ``(N,)``; they add up to 1."""
        votes = self.weights[rows] * text_weights[self.places[rows]]
        return votes / np.maximum(votes.sum(1, keepdims=True), np.finfo(np.float64).tiny)


def voters_in_corpus(snapshot: Snapshot, corpus: Corpus, order: np.ndarray, groups: np.ndarray | None) -> Voters:
    """Find the neighbors of the examples, listed in the given ``order``.

    ``groups`` ``(N,)``: texts of the corpus with equal numbers are versions of one text, and left out like copies.
    None: only copies are left out.
    """
    embeddings = snapshot.keys[order]
    versions = 0
    if groups is not None:
        firsts = np.unique(corpus.text_numbers, return_index=True)[1]
        largest_group = int(np.bincount(groups[firsts]).max(initial=1))  # counted in different texts
        versions = min(largest_group - 1, MAX_SKIPPED_VERSIONS)
    nearest = nearest_texts(
        snapshot,
        embeddings,
        take_passages(snapshot.passages, order),
        corpus.documents,
        exclude_copies=True,
        least=VOTERS + versions if versions else 0,
    )
    if versions:
        nearest = without_versions(nearest, corpus.rows, groups, groups[corpus.rows[order]])
    temperature = nearest.temperature()
    places = [corpus.rows[nearest.examples.rows]]
    to_documents = None
    if nearest.documents is not None:
        places.append(nearest.places)
        to_documents = closeness_to_documents(nearest, embeddings, corpus.document_vectors.mean)
    return Voters(np.hstack(places), nearest.weights(temperature), temperature, to_documents)


def scores_of_held_out(ensemble: Ensemble, problem: Problem) -> HeldOutScores:
    """Score the held-out texts of a problem whose labels have examples."""
    snapshot = problem.snapshot
    held_out = problem.held_out
    columns = problem.columns
    targets = one_hot(held_out.labels, columns)
    usable = np.flatnonzero(targets.any(1)) if held_out.labels.ndim == 1 else np.arange(len(targets))
    if not len(usable):
        raise ValueError("No held-out text has a label that the examples have: fit on others, or on none (folds).")
    texts = [held_out.texts[i] for i in usable]
    scored = score_texts(
        PreparedExperts.of_ensemble(snapshot, ensemble),
        held_out.embeddings[usable],
        texts,
        None if held_out.logits is None else held_out.logits[usable],
        exclude_copies=True,
        with_closeness=True,
    )
    return HeldOutScores(
        scores=scored.logits,
        targets=targets[usable],
        neighbor_label_proportions=scored.neighbor_label_proportions[:, columns],
        closeness=scored.closeness,
        to_documents=scored.closeness_to_documents,
        ids=np.zeros(len(usable), np.int64),
        shift=np.tile(ensemble.learned.shift, (len(usable), 1)),
        is_counted=first_of_each_group(group_versions(texts)),
    )


def assign_folds(labels: np.ndarray, groups: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Assign a fold to each example, int64 ``(n,)``, always the same one; -1 if the example is never held out.

    Examples where ``held_out``, bool ``(n,)``, is False are never held out. The only example of a label is never held
    out with one label per text, ``labels`` ``(n,)``, but may be with several, ``(n, C)``. Examples with equal
    ``groups``, ``(n,)``, are copies or versions of one text, and are in one fold.
    """
    rng = np.random.default_rng(0)
    distinct, groups = np.unique(groups, return_inverse=True)
    count = FOLDS if len(distinct) <= MANY_EXAMPLES else FOLDS_OF_MANY_EXAMPLES
    if len(distinct) <= FEW_EXAMPLES:
        count = FOLDS_OF_FEW_EXAMPLES
    folds = np.full(len(distinct), -1)  # fold of each group
    strata = labels if labels.ndim == 1 else np.zeros(len(groups), np.int64)
    members = [np.unique(groups[strata == stratum]) for stratum in np.unique(strata)]
    always = np.unique(groups[~held_out])
    for stratum in members:
        shuffled = rng.permutation(np.setdiff1d(stratum, always))
        if len(stratum) > 1:
            # Each label from the first fold on: if a fold held out more texts of one label than of another, experts
            # would learn from fewer texts of the very label that they are then asked for, and shun it.
            numbers = np.arange(len(shuffled)) % count
            # Versions of one text may have several labels: their group keeps the fold that it got first.
            folds[shuffled] = np.where(folds[shuffled] < 0, numbers, folds[shuffled])
    for stratum in members:
        if len(np.unique(folds[stratum])) == 1:  # otherwise another fold would have no example of the label
            folds[stratum] = -1
    used = np.unique(folds[folds >= 0])
    return np.where(folds < 0, -1, np.searchsorted(used, folds))[groups]
