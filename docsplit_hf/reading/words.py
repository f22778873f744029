"""Words of a text, in scripts with and without spaces."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

MAX_CHARACTERS = 2**20  # of a text, about the length of a long book; the rest is ignored
# Thai, Lao, Khmer, Burmese, Japanese and Chinese: pairs of neighboring characters are used as words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_SPACED_WORD = re.compile(r"\w\w+")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]{{2,}}")


class NumberedWords(NamedTuple):
    """Words of N texts, by number."""

    vocabulary: list[str]  # in the order in which they first occur
    of_texts: list[np.ndarray]  # int32: numbers of the words of each text, in order


def number_words(texts: Sequence[str]) -> NumberedWords:
    """Split texts into words, and number these."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    of_texts = [np.array([numbers[word] for word in words_of(text)], np.int32) for text in texts]
    return NumberedWords(list(numbers), of_texts)


def words_of(text: str) -> list[str]:
    """Split a text into lowercase words; in scripts without spaces, into pairs of neighboring characters."""
    text = text[:MAX_CHARACTERS].lower()
    if not _HAS_UNSPACED.search(text):
        return _SPACED_WORD.findall(text)
    words: list[str] = []
    for run in _RUN.findall(text):
        pairs = [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
        words += pairs if _HAS_UNSPACED.match(run) else [run]
    return words
