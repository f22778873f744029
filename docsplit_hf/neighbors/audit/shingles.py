"""Texts as sets of word triples, kept as numbers: what two texts share is what of their sets is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..experts.words import words_of

LENGTH = 3  # words; of a shorter text, all of them
MOST_SHINGLES = 256  # of a text, those of the smallest numbers, which are a random sample: memory stays linear

_MIX = [np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)]


class Shingles(NamedTuple):
    """Of N texts: those of text i are ``numbers[starts[i]:starts[i + 1]]``, different and ascending."""

    numbers: np.ndarray  # uint64
    starts: np.ndarray  # int64 (N + 1,)
    totals: np.ndarray  # int64 (N,): how many a text has, of which some may not be kept

    @property
    def sizes(self) -> np.ndarray:
        """How many are kept of each text, ``(N,)``."""
        return np.diff(self.starts)

    def of(self, text: int) -> np.ndarray:
        """Those of one text."""
        return self.numbers[self.starts[text] : self.starts[text + 1]]


def shingles_of(texts: Sequence[str]) -> Shingles:
    """The shingles of texts; one without words has none."""
    vocabulary: dict[str, int] = {}
    kept, totals = [], np.zeros(len(texts), np.int64)
    for i, text in enumerate(texts):
        words = np.array([vocabulary.setdefault(word, len(vocabulary) + 1) for word in words_of(text)], np.uint64)
        length = min(LENGTH, len(words))
        count = len(words) - length + 1 if length else 0
        mixed = np.zeros(count, np.uint64)
        for offset in range(length):
            mixed = _mixed(mixed + words[offset : offset + count])
        different = np.unique(mixed)
        totals[i] = len(different)
        kept.append(different[:MOST_SHINGLES])
    starts = np.concatenate([[0], np.cumsum([len(numbers) for numbers in kept], dtype=np.int64)])
    return Shingles(np.concatenate([*kept, np.zeros(0, np.uint64)]), starts, totals)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """SplitMix64, by which neighboring numbers get far apart; each number has another one (Steele et al. 2014)."""
    numbers = numbers + _MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[1]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[2]
    return numbers ^ (numbers >> np.uint64(31))
