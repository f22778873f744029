"""Numbered words of texts, and their word triples (shingles), as hashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .characters import words_of

if TYPE_CHECKING:
    import scipy.sparse as sp

WORDS_PER_SHINGLE = 3  # a shorter text is one shingle
MAX_SHINGLES = 256  # per text; longer texts keep the 256 smallest hashes, a random sample
WORDS_PER_BLOCK = 2**20  # words hashed at a time, to bound memory

_STEP = np.uint64(0x9E3779B97F4A7C15)  # increment of SplitMix64 (Steele et al. 2014); hash_array is its mixing function


class NumberedWords(NamedTuple):
    """Words of N texts, by number."""

    vocabulary: list[str]  # in the order in which they first occur
    of_texts: list[np.ndarray]  # int32: numbers of the words of each text, in order


def number_words(texts: Sequence[str]) -> NumberedWords:
    """Split texts into words, and number these."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    of_texts = [np.array([numbers[word] for word in words_of(text)], np.int32) for text in texts]
    return NumberedWords(list(numbers), of_texts)


class Shingles(NamedTuple):
    """Word triples of N texts."""

    sets: sp.csr_array  # (N, V), 1 for each triple of a text; columns are in the order of the hashes
    counts: np.ndarray  # int64 (N,): number of different triples before sampling


def shingles_of(words: Sequence[np.ndarray]) -> Shingles:
    """Hash the word triples of N texts, by the numbers of their words."""
    import scipy.sparse as sp

    kept = [np.zeros(0, np.uint64)]
    counts = np.zeros(len(words), np.int64)
    lengths = np.array([len(own) for own in words], np.int64)
    firsts = np.unique(np.cumsum(lengths) // WORDS_PER_BLOCK, return_index=True)[1].tolist()
    for start, after in zip(firsts, [*firsts, len(words)][1:], strict=True):
        numbers = np.concatenate(words[start:after]).astype(np.uint64) + np.uint64(1)
        for hashes in _hashes_of_block(numbers, lengths[start:after]):
            counts[len(kept) - 1] = len(hashes)
            kept.append(hashes[:MAX_SHINGLES].copy())  # a view would keep the whole block in memory
    starts = np.cumsum([len(hashes) for hashes in kept])
    hashes, columns = np.unique(np.concatenate(kept), return_inverse=True)
    ones = np.ones(len(columns), np.int32)
    return Shingles(sets=sp.csr_array((ones, columns, starts), (len(words), len(hashes))), counts=counts)


def _hashes_of_block(words: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Different hashes of each text, ascending; ``words`` are those of all texts, one text after another."""
    mixed = _mixed(words, WORDS_PER_SHINGLE)
    found = []
    for start, length in zip((np.cumsum(lengths) - lengths).tolist(), lengths.tolist(), strict=True):
        if length >= WORDS_PER_SHINGLE:
            found.append(np.unique(mixed[start : start + length - WORDS_PER_SHINGLE + 1]))
        else:
            found.append(_mixed(words[start : start + length], length) if length else np.zeros(0, np.uint64))
    return found


def _mixed(words: np.ndarray, width: int) -> np.ndarray:
    """Hash of the ``width`` words from each place on, uint64."""
    from pandas.util import hash_array

    mixed = np.zeros(max(len(words) - width + 1, 0), np.uint64)
    for offset in range(width):
        mixed = hash_array(mixed + words[offset : offset + len(mixed)] + _STEP)
    return mixed
