"""Find suspect labels, confused labels, outliers and near-duplicates among examples.

Near-duplicates are found by sets of word triples (shingles), or by embeddings if the store keeps no texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax

from ...datastore.duplicates import EQUAL_DISTANCE, number_texts
from ..ensemble.corpus import nearest_rows
from ..ensemble.tfidf import words_of
from ..texts_and_labels import joined_texts

if TYPE_CHECKING:
    import pyarrow as pa

NEAREST = 10
NEAREST_BLOCK = 16_384  # vectors compared at a time, to bound memory
LENGTH = 3  # words of a shingle; a shorter text is one shingle
MOST_SHINGLES = 256  # shingles kept per text: those with the smallest hashes, a random sample, so memory stays linear
SIMILAR = 0.7  # the fraction of shingles that two texts have in common, 2 |A & B| / (|A| + |B|)
# Texts that differ by a sentence also count: this many common shingles, and at most so many others in the longer text.
SENTENCE_IN_COMMON = 15
SENTENCE_CHANGED = 50
# Two texts are compared if they share one of their 20 smallest hashes: if they have half of their shingles in common,
# this misses one pair in a million.
SMALLEST = 20
MOST_TEXTS = 30  # with the same hash; among more texts only neighbors in the list are compared
BLOCK = 65_536  # pairs compared at a time, to bound memory
# Below this cosine, texts of one topic outnumber edited copies; above it lie a quarter of the edited copies of short
# texts, and three quarters of those of long texts.
NEAR_COSINE = 0.95

_STEP = np.uint64(0x9E3779B97F4A7C15)  # the increment of SplitMix64 (Steele et al. 2014); hash_array is its other half


class Nearest(NamedTuple):
    """The nearest other examples of each of N examples, nearest first."""

    rows: np.ndarray  # int64 (N, k), -1 if an index found too few
    cosines: np.ndarray  # (N, k), 0 if an index found too few

    def agreeing(self, values: np.ndarray, row: int, wanted: int) -> int:
        """Count the neighbors of a row with the wanted value, by the values ``(N,)`` of all examples."""
        return int(((values[self.rows[row]] == wanted) & (self.rows[row] >= 0)).sum())

    def closeness(self) -> np.ndarray:
        """The mean cosine to the neighbors, ``(N,)``; 0 without neighbors."""
        return self.cosines.sum(1, dtype=np.float64) / np.maximum((self.rows >= 0).sum(1), 1)


def nearest_examples(vectors: np.ndarray, k: int = NEAREST) -> Nearest:
    """Find the k nearest other examples by cosine; ``vectors``: ``(N, D)`` of norm 1. Approximate above 20,000."""
    count = len(vectors)
    found = nearest_rows(vectors, min(k, count - 1) + 1)
    found[found == np.arange(count)[:, None]] = -1
    # Others first, in their order; then the example itself, or the last other if an index missed the example.
    rows = np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), 1)[:, :-1]
    cosines = np.zeros(rows.shape, np.float32)
    for start in range(0, count, NEAREST_BLOCK):
        part = slice(start, start + NEAREST_BLOCK)
        cosines[part] = np.einsum("nd,nkd->nk", vectors[part], vectors[rows[part]])
    return Nearest(rows, np.where(rows < 0, 0, cosines))


def outliers(closeness: np.ndarray) -> np.ndarray:
    """Rows with ``closeness`` ``(N,)`` over 1.5 interquartile ranges below the first quartile (Tukey), worst first."""
    first, third = np.quantile(closeness, [0.25, 0.75])
    found = np.flatnonzero(closeness < first - 1.5 * (third - first))
    return found[np.argsort(closeness[found], kind="stable")]


class DuplicateGroup(NamedTuple):
    """Rows of texts that are copies of each other, directly or through other copies."""

    rows: list[int]
    similarity: float  # the lowest one among the pairs of copies
    exact: bool


class SimilarPairs(NamedTuple):
    """Pairs of similar texts, by row."""

    rows: np.ndarray  # int64 (P, 2)
    similarity: np.ndarray  # float64 (P,), from 0 to 1


def duplicate_groups(rows: pa.Table, vectors: np.ndarray) -> list[DuplicateGroup]:
    """Group near-duplicates, exact copies first; ``vectors``: ``(N, D)`` of norm 1, used for rows without a text."""
    texts = rows["text"].to_pylist()
    pairs = rows["text_pair"].to_pylist()
    text_numbers, _ = number_texts(rows, texts, pairs)  # -1 without a text
    found = [
        near_duplicates(joined_texts(texts, pairs)),
        _equal_texts(text_numbers),
        _near_vectors(vectors, text_numbers),
    ]
    edges = np.concatenate([pairs.rows for pairs in found])
    similarity = np.concatenate([pairs.similarity for pairs in found])
    graph = sp.coo_array((np.ones(len(edges)), tuple(edges.T)), (len(texts), len(texts)))
    _, group_of_row = connected_components(graph, directed=False)
    rows_of_group = _by_group(group_of_row, np.arange(len(group_of_row)))
    groups = []
    for number, edges_of_group in _by_group(group_of_row[edges[:, 0]], np.arange(len(edges))).items():
        members = rows_of_group[number]
        similarities_in_group = similarity[edges_of_group]
        no_texts = text_numbers[members[0]] < 0
        is_one_text = len(np.unique(text_numbers[members])) == 1
        exact = is_one_text and not (no_texts and (similarities_in_group < 1).any())
        lowest = float(similarities_in_group.min())
        groups.append(DuplicateGroup(rows=members.tolist(), similarity=lowest, exact=exact))
    return sorted(groups, key=lambda group: (not group.exact, -group.similarity, group.rows))


def _by_group(groups: np.ndarray, values: np.ndarray) -> dict[int, np.ndarray]:
    """The values ``(N,)`` of each group, by the group of each value ``(N,)``."""
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(values[order], starts[1:]) if len(values) else [], strict=True))


def _equal_texts(text_numbers: np.ndarray) -> SimilarPairs:
    """Pair each text with the next equal one, including texts without words."""
    order = np.argsort(text_numbers, kind="stable")
    same = (text_numbers[order][1:] == text_numbers[order][:-1]) & (text_numbers[order][1:] >= 0)
    edges = np.stack([order[:-1][same], order[1:][same]], axis=1)
    return SimilarPairs(rows=edges, similarity=np.ones(len(edges)))


def _near_vectors(vectors: np.ndarray, text_numbers: np.ndarray) -> SimilarPairs:
    """Pair rows without texts by their embeddings."""
    rows = np.flatnonzero(text_numbers < 0)
    if len(rows) < 2:
        return SimilarPairs(rows=np.zeros((0, 2), np.int64), similarity=np.zeros(0))
    near = nearest_examples(vectors[rows])
    first, rank = np.nonzero(near.cosines >= NEAR_COSINE)
    cosines = near.cosines[first, rank].astype(np.float64)
    cosines[2 - 2 * cosines <= max(EQUAL_DISTANCE, 4 * np.finfo(np.float32).eps)] = 1.0
    edges = np.stack([rows[first], rows[near.rows[first, rank]]], axis=1)
    return SimilarPairs(rows=edges, similarity=cosines.clip(0, 1))


def near_duplicates(texts: Sequence[str]) -> SimilarPairs:
    """Find pairs of texts with similar words; the lower row comes first in each pair."""
    shingles = shingles_of(texts)
    pairs = candidate_pairs(shingles.sets)
    similarity = similarities(shingles, pairs)
    counts = shingles.counts[pairs]
    common = similarity * counts.sum(1) / 2
    others = counts.max(1, initial=0) - common
    is_sentence = (common >= SENTENCE_IN_COMMON) & (others <= SENTENCE_CHANGED)
    near = (similarity >= SIMILAR) | is_sentence
    return SimilarPairs(rows=pairs[near], similarity=similarity[near])


class Shingles(NamedTuple):
    """The word triples of N texts."""

    sets: sp.csr_array  # (N, V), 1 for each triple of a text; of long texts a sample
    counts: np.ndarray  # int64 (N,): the number of different triples, sampled or not


def shingles_of(texts: Sequence[str]) -> Shingles:
    """Hash the word triples of N texts."""
    from pandas.util import hash_array

    vocabulary: dict[str, int] = {}
    kept = [np.zeros(0, np.uint64)]
    counts = np.zeros(len(texts), np.int64)
    for i, text in enumerate(texts):
        words = np.array([vocabulary.setdefault(word, len(vocabulary) + 1) for word in words_of(text)], np.uint64)
        length = min(LENGTH, len(words))
        mixed = np.zeros(len(words) - length + 1 if length else 0, np.uint64)
        for offset in range(length):
            mixed = hash_array(mixed + words[offset : offset + len(mixed)] + _STEP)
        different = np.unique(mixed)
        counts[i] = len(different)
        kept.append(different[:MOST_SHINGLES])
    starts = np.cumsum([len(hashes) for hashes in kept])
    hashes, columns = np.unique(np.concatenate(kept), return_inverse=True)
    ones = np.ones(len(columns), np.int32)
    return Shingles(sets=sp.csr_array((ones, columns, starts), (len(texts), len(hashes))), counts=counts)


def candidate_pairs(sets: sp.csr_array) -> np.ndarray:
    """Pairs of texts that share one of their smallest shingles, int64 ``(P, 2)``."""
    sizes = np.diff(sets.indptr)
    smallest = np.arange(sets.nnz) - np.repeat(sets.indptr[:-1], sizes) < SMALLEST
    texts = np.repeat(np.arange(len(sizes)), sizes)[smallest]
    shingles = sets.indices[smallest]
    order = np.lexsort((texts, shingles))
    texts = texts[order]
    _, starts = np.unique(shingles[order], return_index=True)
    counts = np.diff(starts, append=len(texts))
    codes = [np.zeros(0, np.int64)]
    for count in np.unique(counts[counts > 1]):
        groups = texts[starts[counts == count][:, None] + np.arange(count)]
        pairs = np.triu_indices(count, 1) if count <= MOST_TEXTS else (np.arange(count - 1), np.arange(1, count))
        codes.append(np.unique(groups[:, pairs[0]] * len(sizes) + groups[:, pairs[1]]))
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), max(len(sizes), 1)), axis=1)


def similarities(shingles: Shingles, pairs: np.ndarray) -> np.ndarray:
    """The fraction ``(P,)`` of shingles that pairs of texts have in common; estimated if some were left out."""
    sets = shingles.sets
    common = np.zeros(len(pairs), np.int64)
    for start in range(0, len(pairs), BLOCK):
        part = pairs[start : start + BLOCK]
        common[start : start + BLOCK] = sets[part[:, 0]].multiply(sets[part[:, 1]]).sum(1)
    sizes = np.diff(sets.indptr)[pairs].sum(1)
    counts = shingles.counts[pairs]
    for row in np.flatnonzero((counts > MOST_SHINGLES).any(1) & (common > 0)):
        both = [sets.indices[sets.indptr[text] : sets.indptr[text + 1]] for text in pairs[row]]
        # Only hashes up to the largest one that is kept of both texts can be compared.
        largest = min(own[-1] for own, count in zip(both, counts[row], strict=True) if count > MOST_SHINGLES)
        sizes[row] = sum(int(np.searchsorted(own, largest, side="right")) for own in both)
    return 2 * common / np.maximum(sizes, 1)


# The grid that is averaged over. Probabilities from few examples or from wrong labels are too unsure, so they are
# raised to a power, with a log-normal prior around 1. No label is wrong with prior probability 1/2.
POWERS = np.geomspace(0.5, 5, 21)
SPREAD_OF_POWERS = 0.5
RATES = np.concatenate([[0], np.geomspace(0.005, 0.4, 20)])
PRIOR_OF_RATES = np.array([0.5, *[0.5 / 20] * 20])
WORTH_A_LOOK = 0.1  # probability that a label is wrong
SURE = 0.7  # probability that the suggested label is right
LEAST_FRACTION = 0.1  # of two labels' examples that are confused
LEAST_COUNT = 3


class SuspectLabel(NamedTuple):
    """A label that may be wrong. If a text may have several labels: the most suspect one, given or missing."""

    row: int
    suggested: int | list[int]  # the label, or all labels
    sure: bool  # whether the suggested label is right with a probability of at least SURE
    probability: float  # that the given label is right
    near_given: int  # the number of neighbors with the given label
    near_suggested: int


class SuspectLabels(NamedTuple):
    """The suspect labels of an audit."""

    found: list[SuspectLabel]  # worth a look, the least probable label first
    wrong: float  # the expected number of wrong labels among all checked ones


def suspect_labels(labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest) -> SuspectLabels:
    """Find labels of N examples that are probably wrong.

    Args:
        labels: ``(N,)``, numbers of C labels or -1; or bool ``(N, C)``, each entry a question of yes or no.
        rows: The examples to check, int64 ``(m,)``.
        probabilities: Their out-of-fold probabilities, ``(m, C)``.
        nearest: The neighbors of all N examples.
    """
    if labels.ndim == 2:
        return _suspects_of_multi_label(labels, rows, probabilities, nearest)
    given = labels[rows]
    wrong, right = wrong_and_right(given, probabilities)
    best = probabilities.argmax(1)
    found = []
    for i in np.flatnonzero((given != best) & (wrong >= WORTH_A_LOOK)):
        suspect = SuspectLabel(
            row=int(rows[i]),
            suggested=int(best[i]),
            sure=bool(right[i] >= SURE),
            probability=float(1 - wrong[i]),
            near_given=nearest.agreeing(labels, rows[i], given[i]),
            near_suggested=nearest.agreeing(labels, rows[i], best[i]),
        )
        found.append(suspect)
    return SuspectLabels(found=sorted(found, key=lambda suspect: suspect.probability), wrong=float(wrong.sum()))


def _suspects_of_multi_label(
    labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest
) -> SuspectLabels:
    given = labels[rows]
    yes_or_no = np.stack([1 - probabilities, probabilities], axis=2).reshape(-1, 2)
    wrong, right = wrong_and_right(given.ravel().astype(np.int64), yes_or_no)
    wrong = wrong.reshape(given.shape)
    right = right.reshape(given.shape)
    suspicion = np.where(given != (probabilities > 0.5), wrong, 0)
    found = []
    for i in np.flatnonzero((suspicion >= WORTH_A_LOOK).any(1)):
        column = suspicion[i].argmax()
        is_changed = suspicion[i] >= min(SURE, suspicion[i, column])
        suspect = SuspectLabel(
            row=int(rows[i]),
            suggested=np.flatnonzero(given[i] ^ is_changed).tolist(),
            sure=bool(right[i, column] >= SURE),
            probability=float(1 - wrong[i, column]),
            near_given=nearest.agreeing(labels[:, column], rows[i], given[i, column]),
            near_suggested=nearest.agreeing(labels[:, column], rows[i], not given[i, column]),
        )
        found.append(suspect)
    return SuspectLabels(found=sorted(found, key=lambda suspect: suspect.probability), wrong=float(wrong.sum()))


def wrong_and_right(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability that each label is wrong, and that the most probable label is right instead, ``(m,)`` each.

    The model: labels are replaced by any other one at an unknown rate r, so a text has the label g with probability
    ``(1 - r) q(g) + r (1 - q(g)) / (C - 1)``, where q is ``probabilities`` ``(m, C)`` raised to a power.
    """
    other_labels = probabilities.shape[1] - 1
    logits = np.log(np.maximum(probabilities, 1e-12, dtype=np.float64))
    given = []
    best = []
    for power in POWERS:
        powered = softmax(power * logits, axis=1)
        given.append(powered[np.arange(len(powered)), labels])
        best.append(powered.max(1))
    evidence = np.log(PRIOR_OF_RATES) - np.square(np.log(POWERS) / SPREAD_OF_POWERS)[:, None] / 2
    evidence += [[np.log((1 - r) * q + r * (1 - q) / other_labels).sum() for r in RATES] for q in given]
    wrong = np.zeros(len(labels))
    right = np.zeros(len(labels))
    for (power, rate), weight in np.ndenumerate(softmax(evidence)):
        q = given[power]
        r = RATES[rate]
        share = weight * r / ((1 - r) * q * other_labels + r * (1 - q))
        wrong += share * (1 - q)
        right += share * best[power]
    return wrong, right


class Confusion(NamedTuple):
    """Two labels, by number, that the experts confuse."""

    first: int
    second: int
    first_as_second: int  # the number of examples
    second_as_first: int
    share: float  # the fraction of confused examples


def confused_labels(labels: np.ndarray, answers: np.ndarray, count: int) -> list[Confusion]:
    """Pairs of ``count`` labels that are confused, most often first; ``labels`` and ``answers``: int64 ``(m,)``."""
    matrix = np.zeros((count, count), np.int64)
    np.add.at(matrix, (labels, answers), 1)
    confusions = []
    for a, b in zip(*np.nonzero(np.triu(matrix + matrix.T, 1)), strict=True):
        wrong = matrix[a, b] + matrix[b, a]
        share = wrong / (wrong + matrix[a, a] + matrix[b, b])
        if wrong >= LEAST_COUNT and share >= LEAST_FRACTION:
            confusion = Confusion(
                first=int(a),
                second=int(b),
                first_as_second=int(matrix[a, b]),
                second_as_first=int(matrix[b, a]),
                share=float(share),
            )
            confusions.append(confusion)
    return sorted(confusions, key=lambda confusion: -confusion.share)
