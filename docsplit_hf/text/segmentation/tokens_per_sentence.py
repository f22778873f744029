"""Which tokens of a text belong to which of its sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def tokens_per_sentence(sentences: Sequence[str], ends: np.ndarray) -> list[int]:
    """The number of tokens of each sentence that has any; ``ends``, ``(n,)``: where each token of the text ends."""
    if not len(ends):
        return []
    # The last character, not the first: byte-level and SentencePiece tokens may start with the white space that ends
    # the sentence before. The running maximum keeps tokens without characters of their own in their place.
    last_characters = np.maximum.accumulate(np.maximum(ends - 1, 0)).astype(np.int64)
    sentence_ends = np.cumsum([len(sentence) for sentence in sentences])
    lengths = np.bincount(np.searchsorted(sentence_ends, last_characters, side="right"))
    return lengths[lengths > 0].tolist()
