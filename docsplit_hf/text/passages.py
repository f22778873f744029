"""Passages: parts of a document, each of whole sentences and of no more tokens than an encoder reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def passage_bounds(sentence_lengths: Sequence[int] | np.ndarray, max_tokens: int, overlap: int = 0) -> np.ndarray:
    """Where the passages of a document begin and end, in tokens: int64 ``(P, 2)``, at least one, in order.

    A passage takes sentences until the next one does not fit. A sentence of more than ``max_tokens`` begins a passage,
    and is cut into as many as it needs. With ``overlap``, a passage begins with the last sentences of the one before,
    as many as have that many tokens at most.
    """
    if max_tokens < 1 or not 0 <= overlap < max_tokens:
        raise ValueError(
            f"Passages need max_tokens of at least 1 and an overlap below it, got {max_tokens}, {overlap}."
        )
    bounds, start, end, sentence_ends = [], 0, 0, [0]
    for length in sentence_lengths:
        if end + length - start > max_tokens and end > start:
            bounds.append((start, end))
            start = next(place for place in sentence_ends if end - place <= overlap)
            if end + length - start > max_tokens:
                start = end
        end += int(length)
        while end - start > max_tokens:
            bounds.append((start, start + max_tokens))
            start += max_tokens
        sentence_ends = [*(place for place in sentence_ends if end - place <= overlap), end]
    if end > start or not bounds:
        bounds.append((start, end))
    return np.array(bounds, dtype=np.int64)
