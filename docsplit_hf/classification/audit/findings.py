"""What an audit finds: labels that the experts contradict or confuse, outliers, and groups of copies.

Copies are found by sets of word triples (shingles), or by embeddings where no texts are kept.
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

NEAREST, NEAREST_BLOCK = 10, 16_384
LENGTH = 3  # words of a shingle; of a shorter text, all of them
MOST_SHINGLES = 256  # kept of a text, those with the smallest numbers, a random sample: memory stays linear
SIMILAR = 0.7  # the share of the shingles that two texts have in common, 2 |A & B| / (|A| + |B|)
# A changed sentence also counts: two texts have a sentence in common, and the longer one has at most one more.
SENTENCE_IN_COMMON, SENTENCE_CHANGED = 15, 50
# Two texts are compared if they share one of their 20 smallest numbers: of texts that have half of all in common, one
# pair in a million shares none. Of a number in more than 30 texts, only neighbors in the list are compared.
SMALLEST, MOST_TEXTS = 20, 30
BLOCK = 65_536
# Of embeddings. Below it there are more texts of one topic than changed copies; above it are a quarter of these
# where texts are short, and three quarters where they are long.
NEAR_COSINE = 0.95

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64 (Steele et al. 2014), whose other half is hash_array


class Nearest(NamedTuple):
    """The nearest others of N examples, nearest first."""

    rows: np.ndarray  # int64 (N, k), -1 where an index found too few
    cosines: np.ndarray  # (N, k), 0 there

    def agreeing(self, values: np.ndarray, row: int, wanted: int) -> int:
        """How many of the nearest of a row have the wanted one of the values ``(N,)``."""
        return int(((values[self.rows[row]] == wanted) & (self.rows[row] >= 0)).sum())

    def closeness(self) -> np.ndarray:
        """The mean cosine of the nearest, ``(N,)``; 0 without any."""
        return self.cosines.sum(1, dtype=np.float64) / np.maximum((self.rows >= 0).sum(1), 1)


def nearest_examples(vectors: np.ndarray, k: int = NEAREST) -> Nearest:
    """The k nearest others by cosine; ``vectors`` are ``(N, D)`` of norm 1. Beyond 20,000 approximate."""
    count = len(vectors)
    found = nearest_rows(vectors, min(k, count - 1) + 1)
    found[found == np.arange(count)[:, None]] = -1
    # An index may have missed the example itself: the others come first, in their order, and the last one goes.
    rows = np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), 1)[:, :-1]
    cosines = np.zeros(rows.shape, np.float32)
    for start in range(0, count, NEAREST_BLOCK):
        part = slice(start, start + NEAREST_BLOCK)
        cosines[part] = np.einsum("nd,nkd->nk", vectors[part], vectors[rows[part]])
    return Nearest(rows, np.where(rows < 0, 0, cosines))


def outliers(closeness: np.ndarray) -> np.ndarray:
    """Rows whose ``closeness`` ``(N,)`` is 1.5 quartile distances below the first quartile (Tukey), worst first."""
    first, third = np.quantile(closeness, [0.25, 0.75])
    found = np.flatnonzero(closeness < first - 1.5 * (third - first))
    return found[np.argsort(closeness[found], kind="stable")]


def duplicate_groups(rows: pa.Table, vectors: np.ndarray) -> list[tuple[list[int], float, bool]]:
    """Groups of copies, or of copies of copies: rows, the lowest similarity, whether exact; exact ones come first."""
    texts, pairs = rows["text"].to_pylist(), rows["text_pair"].to_pylist()
    equal = number_texts(rows, texts, pairs)[0]  # -1 where no text is kept
    found = [near_duplicates(joined_texts(texts, pairs)), _equal_texts(equal), _near_vectors(vectors, equal)]
    edges, similarity = (np.concatenate(parts) for parts in zip(*found, strict=True))
    graph = sp.coo_array((np.ones(len(edges)), tuple(edges.T)), (len(texts), len(texts)))
    group = connected_components(graph, directed=False)[1]
    members = _by_group(group, np.arange(len(group)))
    groups = []
    for number, own in _by_group(group[edges[:, 0]], np.arange(len(edges))).items():
        rows_of, alike = members[number], similarity[own]
        no_texts = equal[rows_of[0]] < 0
        exact = len(np.unique(equal[rows_of])) == 1 and not (no_texts and (alike < 1).any())
        groups.append((rows_of.tolist(), float(alike.min()), exact))
    return sorted(groups, key=lambda group: (not group[2], -group[1], group[0]))


def _by_group(groups: np.ndarray, values: np.ndarray) -> dict[int, np.ndarray]:
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(values[order], starts[1:]) if len(values) else [], strict=True))


def _equal_texts(equal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each text and the next one that equals it: also texts without words."""
    order = np.argsort(equal, kind="stable")
    same = (equal[order][1:] == equal[order][:-1]) & (equal[order][1:] >= 0)
    edges = np.stack([order[:-1][same], order[1:][same]], axis=1)
    return edges, np.ones(len(edges))


def _near_vectors(vectors: np.ndarray, equal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(equal < 0)  # of these no texts are kept
    if len(rows) < 2:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    near = nearest_examples(vectors[rows])
    first, rank = np.nonzero(near.cosines >= NEAR_COSINE)
    cosines = near.cosines[first, rank].astype(np.float64)
    cosines[2 - 2 * cosines <= max(EQUAL_DISTANCE, 4 * np.finfo(np.float32).eps)] = 1.0
    return np.stack([rows[first], rows[near.rows[first, rank]]], axis=1), cosines.clip(0, 1)


def near_duplicates(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of similar texts, int64 ``(P, 2)``, the lower row first, and their similarity, ``(P,)``, from 0 to 1."""
    sets, totals = shingles_of(texts)
    pairs = candidate_pairs(sets)
    similarity = similarities(sets, totals, pairs)
    total, longer = totals[pairs].sum(1), totals[pairs].max(1, initial=0)
    common = similarity * total / 2
    is_sentence = (common >= SENTENCE_IN_COMMON) & (longer - common <= SENTENCE_CHANGED)
    near = (similarity >= SIMILAR) | is_sentence
    return pairs[near], similarity[near]


def shingles_of(texts: Sequence[str]) -> tuple[sp.csr_array, np.ndarray]:
    """The word triples of N texts as sets, ``(N, V)``, of long texts a sample; and how many each has, ``(N,)``."""
    from pandas.util import hash_array

    vocabulary: dict[str, int] = {}
    kept, totals = [np.zeros(0, np.uint64)], np.zeros(len(texts), np.int64)
    for i, text in enumerate(texts):
        words = np.array([vocabulary.setdefault(word, len(vocabulary) + 1) for word in words_of(text)], np.uint64)
        length = min(LENGTH, len(words))
        mixed = np.zeros(len(words) - length + 1 if length else 0, np.uint64)
        for offset in range(length):
            mixed = hash_array(mixed + words[offset : offset + len(mixed)] + _STEP)
        different = np.unique(mixed)
        totals[i] = len(different)
        kept.append(different[:MOST_SHINGLES])
    starts = np.cumsum([len(numbers) for numbers in kept])
    numbers, columns = np.unique(np.concatenate(kept), return_inverse=True)
    return sp.csr_array((np.ones(len(columns), np.int32), columns, starts), (len(texts), len(numbers))), totals


def candidate_pairs(sets: sp.csr_array) -> np.ndarray:
    """Pairs of texts that share one of their smallest shingles, int64 ``(P, 2)``."""
    sizes = np.diff(sets.indptr)
    smallest = np.arange(sets.nnz) - np.repeat(sets.indptr[:-1], sizes) < SMALLEST
    texts, numbers = np.repeat(np.arange(len(sizes)), sizes)[smallest], sets.indices[smallest]
    order = np.lexsort((texts, numbers))
    texts, starts = texts[order], np.unique(numbers[order], return_index=True)[1]
    counts = np.diff(starts, append=len(texts))
    codes = [np.zeros(0, np.int64)]
    for count in np.unique(counts[counts > 1]):
        groups = texts[starts[counts == count][:, None] + np.arange(count)]
        pairs = np.triu_indices(count, 1) if count <= MOST_TEXTS else (np.arange(count - 1), np.arange(1, count))
        codes.append(np.unique(groups[:, pairs[0]] * len(sizes) + groups[:, pairs[1]]))
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), max(len(sizes), 1)), axis=1)


def similarities(sets: sp.csr_array, totals: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The share ``(P,)`` of the shingles that pairs of texts have in common; estimated where not all are kept."""
    common = np.zeros(len(pairs), np.int64)
    for start in range(0, len(pairs), BLOCK):
        part = pairs[start : start + BLOCK]
        common[start : start + BLOCK] = sets[part[:, 0]].multiply(sets[part[:, 1]]).sum(1)
    sizes = np.diff(sets.indptr)[pairs].sum(1)
    for row in np.flatnonzero((totals[pairs] > MOST_SHINGLES).any(1) & (common > 0)):
        both = [sets.indices[sets.indptr[text] : sets.indptr[text + 1]] for text in pairs[row]]
        # Those up to the number to which both are kept can be compared.
        largest = min(own[-1] for own, total in zip(both, totals[pairs[row]], strict=True) if total > MOST_SHINGLES)
        sizes[row] = sum(int(np.searchsorted(own, largest, side="right")) for own in both)
    return 2 * common / np.maximum(sizes, 1)


# The grid that is averaged over. Probabilities learned from few examples or from wrong labels are too unsure, so they
# are raised to a power with a log-normal prior around 1. With probability 1/2 no label is wrong.
SHARPNESS, SPREAD = np.geomspace(0.5, 5, 21), 0.5
RATES = np.concatenate([[0], np.geomspace(0.005, 0.4, 20)])
PRIOR = np.array([0.5, *[0.5 / 20] * 20])
WORTH_A_LOOK, SURE = 0.1, 0.7  # that a label is wrong; that the suggested one is right
LEAST_SHARE, LEAST_COUNT = 0.1, 3  # of confused labels


class Doubt(NamedTuple):
    """A label in doubt. With several labels per text: whether the text has the label of most doubt."""

    row: int
    suggested: int | list[int]  # the label, or all labels
    sure: bool
    probability: float  # that what is given is right
    near_given: int  # of the nearest examples, with what is given
    near_suggested: int


def doubts_of(
    labels: np.ndarray, rows: np.ndarray, probabilities: np.ndarray, nearest: Nearest
) -> tuple[list[Doubt], float]:
    """The doubts about N examples that are worth a look, the gravest first, and about how many labels are wrong.

    ``labels`` are ``(N,)``, numbers of C labels or -1, or bool ``(N, C)``, where each is a question of no or yes.
    ``probabilities`` ``(m, C)`` are the out-of-fold ones of the examples ``rows``.
    """
    given, several = labels[rows], labels.ndim == 2
    if several:
        answers = np.stack([1 - probabilities, probabilities], axis=2).reshape(-1, 2)
        wrong, right = (x.reshape(given.shape) for x in wrong_and_right(given.ravel().astype(np.int64), answers))
        contradicted = given != (probabilities > 0.5)
    else:
        wrong, right = (x[:, None] for x in wrong_and_right(given, probabilities))
        contradicted = (given != probabilities.argmax(1))[:, None]
    doubted = np.where(contradicted, wrong, 0)
    found = []
    for i in np.flatnonzero((doubted >= WORTH_A_LOOK).any(1)):
        gravest = doubted[i].argmax()
        if several:
            values, has, other = labels[:, gravest], given[i, gravest], not given[i, gravest]
            suggested = np.flatnonzero(given[i] ^ (doubted[i] >= min(SURE, doubted[i, gravest]))).tolist()
        else:
            values, has, other = labels, given[i], int(probabilities[i].argmax())
            suggested = other
        near = (nearest.agreeing(values, rows[i], label) for label in (has, other))
        sure = bool(right[i, gravest] >= SURE)
        found.append(Doubt(int(rows[i]), suggested, sure, float(1 - wrong[i, gravest]), *near))
    return sorted(found, key=lambda doubt: doubt.probability), float(wrong.sum())


def wrong_and_right(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability that each label is wrong, and that the most probable one is right in its place, ``(m,)`` each.

    Labels are assumed to be changed to any other one at an unknown rate r: a text has the label g with probability
    ``(1 - r) q(g) + r (1 - q(g)) / (C - 1)``, q being ``probabilities`` ``(m, C)`` to a power.
    """
    others, logits = probabilities.shape[1] - 1, np.log(np.maximum(probabilities, 1e-12, dtype=np.float64))
    powered = (softmax(sharpness * logits, axis=1) for sharpness in SHARPNESS)
    own, best = np.array([(q[np.arange(len(q)), labels], q.max(1)) for q in powered]).transpose(1, 0, 2)
    evidence = np.log(PRIOR) - np.square(np.log(SHARPNESS) / SPREAD)[:, None] / 2
    evidence += [[np.log((1 - r) * q + r * (1 - q) / others).sum() for r in RATES] for q in own]
    wrong, right = np.zeros((2, len(labels)))
    for (s, r), weight in np.ndenumerate(softmax(evidence)):
        share = weight * RATES[r] / ((1 - RATES[r]) * own[s] * others + RATES[r] * (1 - own[s]))
        wrong += share * (1 - own[s])
        right += share * best[s]
    return wrong, right


def confused_labels(labels: np.ndarray, answers: np.ndarray, count: int) -> list[tuple[int, int, int, int, float]]:
    """Pairs ``(a, b, a taken for b, b taken for a, share of wrong ones)`` of ``(m,)`` labels, most confused first."""
    matrix = np.zeros((count, count), np.int64)
    np.add.at(matrix, (labels, answers), 1)
    pairs = []
    for a, b in zip(*np.nonzero(np.triu(matrix + matrix.T, 1)), strict=True):
        wrong = matrix[a, b] + matrix[b, a]
        share = wrong / (wrong + matrix[a, a] + matrix[b, b])
        if wrong >= LEAST_COUNT and share >= LEAST_SHARE:
            pairs.append((int(a), int(b), int(matrix[a, b]), int(matrix[b, a]), float(share)))
    return sorted(pairs, key=lambda pair: -pair[-1])
