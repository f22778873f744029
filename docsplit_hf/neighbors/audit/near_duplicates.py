"""Pairs of texts that are nearly the same: a sentence was changed, or little of the words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .shingles import MOST_SHINGLES, Shingles, shingles_of

SIMILAR = 0.7  # the share of the shingles that two texts have in common, 2 |A & B| / (|A| + |B|)
# Of a text of few sentences, one more than that is a changed sentence: they have a sentence in common, and the longer
# one has no more than a sentence that the other has not.
SENTENCE_IN_COMMON, SENTENCE_CHANGED = 15, 50
# Two texts are compared if they share one of their 20 smallest numbers: of those that have half of all in common, one
# pair in a million shares none. What more texts share is no sign: only neighbors in the list are compared then.
SMALLEST, MOST_TEXTS = 20, 30
BLOCK = 65_536


def near_duplicates(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of similar texts, int64 ``(P, 2)``, the lower row first, and their similarity, ``(P,)``, from 0 to 1."""
    shingles = shingles_of(texts)
    pairs = candidate_pairs(shingles)
    similarity = similarities(shingles, pairs)
    total, longer = shingles.totals[pairs].sum(1), shingles.totals[pairs].max(1, initial=0)
    common = similarity * total / 2
    is_sentence = (common >= SENTENCE_IN_COMMON) & (longer - common <= SENTENCE_CHANGED)
    near = (similarity >= SIMILAR) | is_sentence
    return pairs[near], similarity[near]


def candidate_pairs(shingles: Shingles) -> np.ndarray:
    """Pairs of texts that share one of their smallest shingles, int64 ``(P, 2)``."""
    sizes = np.minimum(shingles.sizes, SMALLEST)
    texts = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(texts)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    numbers = shingles.numbers[shingles.starts[texts] + within]
    order = np.lexsort((texts, numbers))
    texts, numbers = texts[order], numbers[order]
    bounds = np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1], [True]]))
    counts = np.diff(bounds) if len(numbers) else np.zeros(0, np.int64)
    codes = [np.zeros(0, np.int64)]
    for count in np.unique(counts[counts > 1]):
        groups = texts[bounds[:-1][counts == count][:, None] + np.arange(count)]
        if count <= MOST_TEXTS:
            first, second = np.triu_indices(count, 1)
        else:
            first, second = np.arange(count - 1), np.arange(1, count)
        codes.append(np.unique(groups[:, first] * len(sizes) + groups[:, second]))
    found = np.unique(np.concatenate(codes))
    return np.stack(np.divmod(found, max(len(sizes), 1)), axis=1)


def similarities(shingles: Shingles, pairs: np.ndarray) -> np.ndarray:
    """The share ``(P,)`` of the shingles that pairs of texts have in common; estimated where not all are kept."""
    import scipy.sparse as sp

    numbers, columns = np.unique(shingles.numbers, return_inverse=True)
    ones = np.ones(len(columns), np.int32)
    sets = sp.csr_array((ones, columns, shingles.starts), (len(shingles.sizes), len(numbers)))
    common = np.zeros(len(pairs), np.int64)
    for start in range(0, len(pairs), BLOCK):
        part = pairs[start : start + BLOCK]
        common[start : start + BLOCK] = sets[part[:, 0]].multiply(sets[part[:, 1]]).sum(1)
    sizes = shingles.sizes[pairs].sum(1)
    for row in np.flatnonzero((shingles.totals[pairs] > MOST_SHINGLES).any(1) & (common > 0)):
        sizes[row] = _comparable(shingles, *pairs[row])
    return 2 * common / np.maximum(sizes, 1)


def _comparable(shingles: Shingles, first: int, second: int) -> int:
    """How many shingles of two texts are up to the number to which both are kept."""
    both = [(shingles.of(text), shingles.totals[text] > MOST_SHINGLES) for text in (first, second)]
    largest = min(numbers[-1] for numbers, is_cut in both if is_cut)
    return sum(int(np.searchsorted(numbers, largest, side="right")) for numbers, _ in both)
