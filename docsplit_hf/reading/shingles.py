"""Word triples (shingles) of texts, as hashes; long texts keep a random sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .words import words_of

if TYPE_CHECKING:
    import scipy.sparse as sp

WORDS_PER_SHINGLE = 3  # a shorter text is one shingle
MAX_SHINGLES = 256  # per text; longer texts keep the 256 smallest hashes, a random sample
WORDS_PER_BLOCK = 2**20  # words hashed at a time, to bound memory

_STEP = np.uint64(0x9E3779B97F4A7C15)  # increment of SplitMix64 (Steele et al. 2014); hash_array is its mixing function


class Shingles(NamedTuple):
    """Word triples of N texts."""

    sets: sp.csr_array  # (N, V), 1 for each triple of a text; columns are in the order of the hashes
    counts: np.ndarray  # int64 (N,): number of different triples before sampling


def shingles_of(texts: Sequence[str]) -> Shingles:
    """Hash the word triples of N texts."""
    import scipy.sparse as sp

    vocabulary: dict[str, int] = defaultdict(count(1).__next__)
    kept = [np.zeros(0, np.uint64)]
    counts = np.zeros(len(texts), np.int64)
    words: list[int] = []
    lengths: list[int] = []
    for i, text in enumerate(texts):
        own = [vocabulary[word] for word in words_of(text)]
        words += own
        lengths.append(len(own))
        if len(words) >= WORDS_PER_BLOCK or i == len(texts) - 1:
            for hashes in _hashes_of_block(np.array(words, np.uint64), np.array(lengths)):
                counts[len(kept) - 1] = len(hashes)
                kept.append(hashes[:MAX_SHINGLES].copy())  # a view would keep the whole block in memory
            words = []
            lengths = []
    starts = np.cumsum([len(hashes) for hashes in kept])
    hashes, columns = np.unique(np.concatenate(kept), return_inverse=True)
    ones = np.ones(len(columns), np.int32)
    return Shingles(sets=sp.csr_array((ones, columns, starts), (len(texts), len(hashes))), counts=counts)


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
