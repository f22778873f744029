"""Combine the outputs of the chunks of texts: averages, passages, and how much was read. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..arrays.passages import Passages, Predictions
from .chunking import PASSAGES

if TYPE_CHECKING:
    from .chunking import Chunk

SMALLEST_NORM = 1e-12  # as in torch.nn.functional.normalize


def normalize(values: np.ndarray) -> np.ndarray:
    """Scale rows to norm 1; rows of zeros remain."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.maximum(norms, SMALLEST_NORM)


class ChunkAverages:
    """Averages the values of each text's chunks, weighted by tokens; an only chunk keeps its value.

    The directions and the norms of embeddings are averaged separately, so that chunks of norm 1 give a text of norm 1.
    The strategy ``whole`` then averages the result with the first chunk.

    Args:
        texts: The number of texts.
        dimension: The number of dimensions of a value.
        strategy: The strategy that made the chunks.
        are_embeddings: Whether values are embeddings, or other values such as logits, which are averaged as they are.
    """

    def __init__(self, texts: int, dimension: int, strategy: str, are_embeddings: bool = True) -> None:
        self._are_embeddings = are_embeddings
        self._beginnings = np.zeros((texts, dimension), dtype=np.float32) if strategy == "whole" else None
        self._sums = np.zeros((texts, dimension), dtype=np.float32)
        self._weights = np.zeros(texts, dtype=np.float32)
        self._norms = np.zeros(texts, dtype=np.float32)

    def add(self, chunks: Sequence[Chunk], values: np.ndarray) -> None:
        """Add the values of chunks, float32 ``(chunks, D)``."""
        owners = np.array([chunk.text for chunk in chunks])
        weights = np.array([chunk.weight for chunk in chunks], dtype=np.float32)
        is_only = weights == 0
        self._sums[owners[is_only]] = values[is_only]
        if is_only.all():
            return
        if self._beginnings is not None:
            is_first = np.array([chunk.is_first for chunk in chunks]) & ~is_only
            self._beginnings[owners[is_first]] = values[is_first]
        weights = weights[~is_only]
        owners = owners[~is_only]
        values = values[~is_only]
        directions = normalize(values) if self._are_embeddings else values
        np.add.at(self._weights, owners, weights)
        np.add.at(self._norms, owners, np.linalg.norm(values, axis=1) * weights)
        np.add.at(self._sums, owners, directions * weights[:, None])

    def all(self) -> np.ndarray:
        """The averages, float32 ``(N, D)``."""
        values = self._sums
        is_averaged = self._weights > 0
        if not is_averaged.any():
            return values
        sums = values[is_averaged]
        weights = self._weights[is_averaged, None]
        first = None if self._beginnings is None else self._beginnings[is_averaged]
        if self._are_embeddings:
            directions = normalize(sums) if first is None else normalize(normalize(sums) + normalize(first))
            values[is_averaged] = directions * self._norms[is_averaged, None] / weights
        else:
            values[is_averaged] = sums / weights if first is None else (sums / weights + first) / 2
        return values


class PassagesOfTexts:
    """Collects the passages of N texts, chunk by chunk."""

    def __init__(self, texts: int, dimension: int) -> None:
        self._counts = np.zeros(texts, dtype=np.int64)
        self._embeddings = [np.empty((0, dimension), dtype=np.float32)]
        self._spans: list[tuple[int, int]] = []

    def add(self, chunks: Sequence[Chunk], embeddings: np.ndarray) -> None:
        """Add the embeddings of chunks, ``(chunks, D)``."""
        self._embeddings.append(embeddings)
        for chunk in chunks:
            self._counts[chunk.text] += 1
            self._spans.append((chunk.start, chunk.end))

    def all(self) -> Passages:
        """All passages."""
        return Passages(
            embeddings=np.concatenate(self._embeddings),
            counts=self._counts,
            spans=np.array(self._spans, dtype=np.int64).reshape(-1, 2),
        )


class EmbeddedChunks:
    """Collects the outputs of the chunks of N texts, and combines the chunks of each text."""

    def __init__(self, texts: int, dimension: int, labels: int, strategy: str) -> None:
        self._embeddings = ChunkAverages(texts, dimension, strategy)
        self._logits = ChunkAverages(texts, labels, strategy, are_embeddings=False)
        self._passages = PassagesOfTexts(texts, dimension) if strategy == PASSAGES else None
        self._read_fraction = np.ones(texts)

    def add(self, chunks: Sequence[Chunk], embeddings: np.ndarray, logits: np.ndarray) -> None:
        """Add the outputs of chunks, ``(chunks, D)`` and ``(chunks, C)``."""
        self._embeddings.add(chunks, embeddings)
        self._logits.add(chunks, logits)
        self._read_fraction[[chunk.text for chunk in chunks]] = [chunk.read_fraction for chunk in chunks]
        if self._passages is not None:
            self._passages.add(chunks, embeddings)

    def all(self) -> Predictions:
        """The predictions of all texts."""
        passages = None if self._passages is None else self._passages.all()
        return Predictions(
            logits=self._logits.all(),
            retrieval_embeddings=self._embeddings.all(),
            read_fraction=self._read_fraction,
            passages=None if passages is None or (passages.counts == 1).all() else passages,
        )
