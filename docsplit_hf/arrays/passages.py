"""The embeddings of texts and of their passages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Passages(NamedTuple):
    """The embeddings of the passages of N texts, in the order of the texts and of their passages."""

    embeddings: np.ndarray  # float32 (P, D)
    counts: np.ndarray  # int64 (N,): passages per text, at least 1
    spans: np.ndarray  # int64 (P, 2): start and end of each passage in its text, in characters

    @classmethod
    def joined(cls, texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Passages:
        """Join the embeddings, ``(p, D)``, and the spans, ``(p, 2)``, of the passages of each text."""
        embeddings, spans = zip(*texts, strict=True)
        counts = np.array([len(part) for part in embeddings], dtype=np.int64)
        return cls(np.concatenate(embeddings), counts, np.concatenate(spans))

    def of(self, text: int) -> tuple[np.ndarray, np.ndarray]:
        """The embeddings, ``(p, D)``, and the spans, ``(p, 2)``, of one text; ``by_text`` is faster for all texts."""
        start = int(self.counts[:text].sum())
        part = slice(start, start + int(self.counts[text]))
        return self.embeddings[part], self.spans[part]

    def by_text(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The embeddings, ``(p, D)``, and the spans, ``(p, 2)``, of each text in turn."""
        firsts = np.cumsum(self.counts) - self.counts
        parts = map(slice, firsts, firsts + self.counts)
        return ((self.embeddings[part], self.spans[part]) for part in parts)


class Predictions(NamedTuple):
    """Output of a classifier for N texts, in their order."""

    logits: np.ndarray  # float32 (N, C); C is 0 without a classification head
    retrieval_embeddings: np.ndarray  # float32 (N, R)
    read_fraction: np.ndarray | None = None  # float64 (N,): the part of each text that was read; None: unknown
    passages: Passages | None = None  # None where each text has one embedding
