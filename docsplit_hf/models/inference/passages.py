"""Passages: several embeddings for each text, and where in the text each stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Passages(NamedTuple):
    """The embeddings of the passages of N texts, those of a text together and in order."""

    embeddings: np.ndarray  # float32 (P, D)
    counts: np.ndarray  # int64 (N,): passages per text, at least 1
    spans: np.ndarray  # int64 (P, 2): where each begins and ends in its text, in characters

    @classmethod
    def joined(cls, texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Passages:
        """Of each text the embeddings of its passages, ``(p, D)``, and their spans, ``(p, 2)``."""
        embeddings, spans = zip(*texts, strict=True)
        counts = np.array([len(part) for part in embeddings], dtype=np.int64)
        return cls(np.concatenate(embeddings), counts, np.concatenate(spans))

    def of(self, text: int) -> tuple[np.ndarray, np.ndarray]:
        """The embeddings of the passages of a text, ``(p, D)``, and their spans, ``(p, 2)``."""
        start = int(self.counts[:text].sum())
        part = slice(start, start + int(self.counts[text]))
        return self.embeddings[part], self.spans[part]
