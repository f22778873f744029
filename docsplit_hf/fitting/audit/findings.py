"""Search for suspect labels, confused labels, outliers and near-duplicates among examples.

Near-duplicates are found by sets of word triples (shingles).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ...arrays.snapshot import number_texts
from ...reading.inputs import joined_texts
from ...reading.shingles import MAX_SHINGLES, Shingles, number_words, shingles_of
from ..experts.corpus import nearest_rows
from ..experts.log_linear_pool import softmax
from .report import ConfusedLabels

if TYPE_CHECKING:
    import pyarrow as pa

COMPARED_NEIGHBORS = 10  # nearest examples of each example
VECTORS_PER_BLOCK = 16_384  # vectors compared at a time, to bound memory
MIN_SIMILARITY = 0.7  # fraction of shingles that two texts have in common, 2 |A & B| / (|A| + |B|)
# Texts that differ by a sentence are also near-duplicates: at least 15 shared shingles, and at most 50 unshared ones in
# the longer text.
MIN_COMMON_SHINGLES = 15
MAX_CHANGED_SHINGLES = 50
# Two texts are compared if they share one of their 20 smallest hashes. Of pairs with half of their shingles in common,
# this misses one in a million.
COMPARED_HASHES = 20
MAX_TEXTS_PER_HASH = 30  # if more texts share a hash, each is compared only with the next one
TEXT_PAIRS_PER_BLOCK = 65_536  # pairs compared at a time, to bound memory


class Nearest(NamedTuple):
    """Nearest other examples of each of N examples, nearest first."""

    rows: np.ndarray  # int64 (N, k), -1 if an index found too few
    cosines: np.ndarray  # (N, k), 0 if an index found too few

    def agreeing(self, values: np.ndarray, row: int, wanted: int) -> int:
        """Count the neighbors of ``row`` with an entry in ``values`` ``(N,)`` that equals ``wanted``."""
        return int(((values[self.rows[row]] == wanted) & (self.rows[row] >= 0)).sum())

    def closeness(self) -> np.ndarray:
        """Mean cosine to the neighbors, ``(N,)``; 0 without neighbors."""
        return self.cosines.sum(1, dtype=np.float64) / np.maximum((self.rows >= 0).sum(1), 1)


def nearest_examples(vectors: np.ndarray, k: int = COMPARED_NEIGHBORS) -> Nearest:
    """Find the k nearest other examples by cosine, for vectors ``(N, D)`` of norm 1; approximate if N > 20,000."""
    count = len(vectors)
    found = nearest_rows(vectors, min(k, count - 1) + 1)
    found[found == np.arange(count)[:, None]] = -1
    # The stable sort moves the example itself to the last column, which is dropped. If the index missed it, the
    # farthest neighbor is dropped.
    rows = np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), 1)[:, :-1]
    cosines = np.zeros(rows.shape, np.float32)
    for start in range(0, count, VECTORS_PER_BLOCK):
        part = slice(start, start + VECTORS_PER_BLOCK)
        cosines[part] = np.einsum("nd,nkd->nk", vectors[part], vectors[rows[part]])
    return Nearest(rows, np.where(rows < 0, 0, cosines))


def outliers(closeness: np.ndarray) -> np.ndarray:
    """Find rows with ``closeness`` ``(N,)`` below the lower Tukey fence: Q1 - 1.5 (Q3 - Q1); worst first."""
    first, third = np.quantile(closeness, [0.25, 0.75])
    found = np.flatnonzero(closeness < first - 1.5 * (third - first))
    return found[np.argsort(closeness[found], kind="stable")]


class DuplicateGroup(NamedTuple):
    """Rows of texts that are near-duplicates, directly or through other near-duplicates."""

    rows: list[int]
    similarity: float  # the lowest of the pairs of near-duplicates
    exact: bool  # whether all texts are equal


class SimilarPairs(NamedTuple):
    """Pairs of similar texts, by row."""

    rows: np.ndarray  # int64 (P, 2)
    similarity: np.ndarray  # float64 (P,), from 0 to 1


def duplicate_groups(rows: pa.Table) -> list[DuplicateGroup]:
    """Group near-duplicates, exact copies first; rows without a text have none."""
    texts = rows["text"].to_pylist()
    pairs = rows["text_pair"].to_pylist()
    text_numbers, _ = number_texts(rows, texts, pairs)  # -1 without a text
    found = [near_duplicates(joined_texts(texts, pairs)), _equal_texts(text_numbers)]
    edges = np.concatenate([pairs.rows for pairs in found])
    similarity = np.concatenate([pairs.similarity for pairs in found])
    graph = sp.coo_array((np.ones(len(edges)), tuple(edges.T)), (len(texts), len(texts)))
    _, group_of_row = connected_components(graph, directed=False)
    members_of = pd.Series(text_numbers).groupby(group_of_row).indices
    lowest = pd.Series(similarity).groupby(group_of_row[edges[:, 0]]).min()
    groups = [
        DuplicateGroup(
            rows=members_of[group].tolist(),
            similarity=of_group,
            exact=len(np.unique(text_numbers[members_of[group]])) == 1,
        )
        for group, of_group in lowest.items()
    ]
    return sorted(groups, key=lambda group: (not group.exact, -group.similarity, group.rows))


def _equal_texts(text_numbers: np.ndarray) -> SimilarPairs:
    """Pair each text with the next equal one, also texts without words; rows without a text, -1, are not paired."""
    order = np.argsort(text_numbers, kind="stable")
    is_equal = (text_numbers[order][1:] == text_numbers[order][:-1]) & (text_numbers[order][1:] >= 0)
    edges = np.stack([order[:-1][is_equal], order[1:][is_equal]], axis=1)
    return SimilarPairs(rows=edges, similarity=np.ones(len(edges)))


def near_duplicates(texts: Sequence[str]) -> SimilarPairs:
    """Find pairs of texts with similar words; the lower row comes first in each pair."""
    shingles = shingles_of(number_words(texts).of_texts)
    pairs = candidate_pairs(shingles.sets)
    similarity = similarities(shingles, pairs)
    counts = shingles.counts[pairs]
    common = similarity * counts.sum(1) / 2
    others = counts.max(1, initial=0) - common
    differs_by_a_sentence = (common >= MIN_COMMON_SHINGLES) & (others <= MAX_CHANGED_SHINGLES)
    near = (similarity >= MIN_SIMILARITY) | differs_by_a_sentence
    return SimilarPairs(rows=pairs[near], similarity=similarity[near])


def candidate_pairs(sets: sp.csr_array) -> np.ndarray:
    """Find pairs of texts that share one of their smallest shingles, int64 ``(P, 2)``."""
    sizes = np.diff(sets.indptr)
    smallest = np.arange(sets.nnz) - np.repeat(sets.indptr[:-1], sizes) < COMPARED_HASHES
    texts = np.repeat(np.arange(len(sizes)), sizes)[smallest]
    shingles = sets.indices[smallest]
    is_rare = np.bincount(shingles, minlength=sets.shape[1])[shingles] <= MAX_TEXTS_PER_HASH
    rare = sp.csr_array((np.ones(is_rare.sum(), bool), (texts[is_rare], shingles[is_rare])), sets.shape)
    found = sp.triu(rare @ rare.T, 1)
    order = np.lexsort((texts, shingles))
    is_next = (np.diff(shingles[order]) == 0) & ~is_rare[order][:-1]
    codes = [found.row.astype(np.int64) * len(sizes) + found.col]
    codes.append(texts[order][:-1][is_next] * len(sizes) + texts[order][1:][is_next])
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), max(len(sizes), 1)), axis=1)


def similarities(shingles: Shingles, pairs: np.ndarray) -> np.ndarray:
    """Fraction of shingles that pairs of texts have in common, ``(P,)``; estimated for texts with sampled shingles."""
    sets = shingles.sets
    common = np.zeros(len(pairs), np.int64)
    for start in range(0, len(pairs), TEXT_PAIRS_PER_BLOCK):
        part = pairs[start : start + TEXT_PAIRS_PER_BLOCK]
        common[start : start + TEXT_PAIRS_PER_BLOCK] = sets[part[:, 0]].multiply(sets[part[:, 1]]).sum(1)
    sizes = np.diff(sets.indptr)[pairs].sum(1)
    counts = shingles.counts[pairs]
    for row in np.flatnonzero((counts > MAX_SHINGLES).any(1) & (common > 0)):
        both = [sets.indices[sets.indptr[text] : sets.indptr[text + 1]] for text in pairs[row]]
        # The smallest hashes of sampled texts can be compared only up to the smaller of their largest hashes.
        largest = min(own[-1] for own, count in zip(both, counts[row], strict=True) if count > MAX_SHINGLES)
        sizes[row] = sum(int(np.searchsorted(own, largest, side="right")) for own in both)
    return 2 * common / np.maximum(sizes, 1)


# Grid of the parameters that are averaged over. Probabilities learned from few examples or from wrong labels are
# underconfident, so they are raised to a power (a temperature), with a log-normal prior around 1. The prior probability
# that no label is wrong is 1/2.
POWERS = np.geomspace(0.5, 5, 21)
POWER_SPREAD = 0.5
ERROR_RATES = np.concatenate([[0], np.geomspace(0.005, 0.4, 20)])
ERROR_RATE_PRIOR = np.array([0.5, *[0.5 / 20] * 20])
MIN_WRONG_PROBABILITY = 0.1  # minimum probability of error for a label to be reported
MIN_RIGHT_PROBABILITY = 0.7  # minimum probability of the suggested label for the finding to be marked
MIN_CONFUSED_FRACTION = 0.1  # of the examples of two labels, for these to be reported
MIN_CONFUSED_EXAMPLES = 3


class SuspectLabel(NamedTuple):
    """Label that may be wrong. Multi-label: the label with the most doubtful presence or absence."""

    row: int
    suggested: int | list[int]  # number of the label, or of all labels if a text may have several
    sure: bool  # whether the suggested label is right with a probability of at least MIN_RIGHT_PROBABILITY
    probability: float  # that the given label is right
    near_given: int  # number of neighbors with the given label
    near_suggested: int  # number of neighbors with the suggested label


def suspect_labels(
    labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest
) -> tuple[list[SuspectLabel], float]:
    """Find labels of N examples that are probably wrong.

    Args:
        labels: The given labels: numbers from 0 to C - 1, or -1, int64 ``(N,)``; or bool ``(N, C)`` if a text may have
            several. Then each entry is checked as a label with two classes.
        rows: The examples to check, int64 ``(m,)``.
        probabilities: Their out-of-fold probabilities, ``(m, C)``.
        nearest: The neighbors of all N examples.

    Returns:
        The suspect labels, the least probable label first, and the expected number of wrong labels among all checked
        ones.
    """
    if labels.ndim == 2:
        return _suspects_of_multi_label(labels, rows, probabilities, nearest)
    given = labels[rows]
    wrong, right = wrong_and_right(given, probabilities)
    best = probabilities.argmax(1)
    found = [
        SuspectLabel(
            row=int(rows[i]),
            suggested=int(best[i]),
            sure=bool(right[i] >= MIN_RIGHT_PROBABILITY),
            probability=float(1 - wrong[i]),
            near_given=nearest.agreeing(labels, rows[i], given[i]),
            near_suggested=nearest.agreeing(labels, rows[i], best[i]),
        )
        for i in np.flatnonzero((given != best) & (wrong >= MIN_WRONG_PROBABILITY))
    ]
    return sorted(found, key=lambda suspect: suspect.probability), float(wrong.sum())


def _suspects_of_multi_label(
    labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest
) -> tuple[list[SuspectLabel], float]:
    """Check each entry of multi-label examples; at most one suspect for each example, with all likely changes."""
    given = labels[rows]
    binary_probabilities = np.stack([1 - probabilities, probabilities], axis=2).reshape(-1, 2)
    wrong, right = wrong_and_right(given.ravel().astype(np.int64), binary_probabilities)
    wrong = wrong.reshape(given.shape)
    right = right.reshape(given.shape)
    suspicion = np.where(given != (probabilities > 0.5), wrong, 0)
    found = []
    for i in np.flatnonzero((suspicion >= MIN_WRONG_PROBABILITY).any(1)):
        column = suspicion[i].argmax()
        is_changed = suspicion[i] >= min(MIN_RIGHT_PROBABILITY, suspicion[i, column])
        found.append(
            SuspectLabel(
                row=int(rows[i]),
                suggested=np.flatnonzero(given[i] ^ is_changed).tolist(),
                sure=bool(right[i, column] >= MIN_RIGHT_PROBABILITY),
                probability=float(1 - wrong[i, column]),
                near_given=nearest.agreeing(labels[:, column], rows[i], given[i, column]),
                near_suggested=nearest.agreeing(labels[:, column], rows[i], not given[i, column]),
            )
        )
    return sorted(found, key=lambda suspect: suspect.probability), float(wrong.sum())


def wrong_and_right(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability that each label is wrong, and that the most probable label is right instead, ``(m,)`` each.

    In the model, labels are replaced by any other label at an unknown rate r, so a text is given the label g with
    probability ``(1 - r) q(g) + r (1 - q(g)) / (C - 1)``, where q is ``probabilities`` ``(m, C)`` raised to a power and
    normalized. Rates and powers are averaged over, weighted by their posterior.
    """
    other_labels = probabilities.shape[1] - 1
    logits = np.log(np.maximum(probabilities, 1e-12, dtype=np.float64))
    given = []
    best = []
    for power in POWERS:
        powered = softmax(power * logits, axis=1)
        given.append(powered[np.arange(len(powered)), labels])
        best.append(powered.max(1))
    evidence = np.log(ERROR_RATE_PRIOR) - np.square(np.log(POWERS) / POWER_SPREAD)[:, None] / 2
    evidence += [[np.log((1 - r) * q + r * (1 - q) / other_labels).sum() for r in ERROR_RATES] for q in given]
    wrong = np.zeros(len(labels))
    right = np.zeros(len(labels))
    for (power, rate), weight in np.ndenumerate(softmax(evidence)):
        q = given[power]
        r = ERROR_RATES[rate]
        replaced = weight * r / ((1 - r) * q * other_labels + r * (1 - q))
        wrong += replaced * (1 - q)
        right += replaced * best[power]
    return wrong, right


def confused_labels(labels: np.ndarray, answers: np.ndarray, names: Sequence[str]) -> list[ConfusedLabels]:
    """Find confused pairs of the labels, most confused first, by labels and answers, int64 ``(m,)`` each."""
    matrix = np.zeros((len(names), len(names)), np.int64)
    np.add.at(matrix, (labels, answers), 1)
    wrong = matrix + matrix.T
    share = wrong / np.maximum(wrong + matrix.diagonal() + matrix.diagonal()[:, None], 1)
    is_confused = np.triu((wrong >= MIN_CONFUSED_EXAMPLES) & (share >= MIN_CONFUSED_FRACTION), 1)
    confusions = [
        ConfusedLabels(
            first=names[a],
            second=names[b],
            first_as_second=int(matrix[a, b]),
            second_as_first=int(matrix[b, a]),
            share=float(share[a, b]),
        )
        for a, b in np.argwhere(is_confused)
    ]
    return sorted(confusions, key=lambda confusion: -confusion.share)
