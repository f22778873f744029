"""From what was read of pieces to the embeddings of texts, however many pieces each has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from .passages import Passages
from .pieces import Piece


def parts_of(
    states: torch.Tensor, attention_mask: torch.Tensor, pieces: Sequence[Piece], prompt_length: int = 0
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The states of what is pooled apart, ``(parts, l, H)``, their mask, and how many tokens of each are a prompt."""
    if all(piece.parts is None for piece in pieces):
        return states, attention_mask, prompt_length
    rows = []
    for row, piece in zip(states, pieces, strict=True):
        length = len(piece.input_ids)
        whole = [(min(prompt_length, length - 1), length)]
        rows += [row[start:end] for start, end in (whole if piece.parts is None else piece.parts[:, :2].tolist())]
    masks = [torch.ones(len(row), dtype=attention_mask.dtype, device=states.device) for row in rows]
    return pad_sequence(rows, True), pad_sequence(masks, True), 0


def places_of_parts(pieces: Sequence[Piece]) -> list[np.ndarray]:
    """Where the embeddings of each piece stand among those of all."""
    counts = [len(piece.weights) for piece in pieces]
    return np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])


class PieceAverages:
    """Values of N texts, from those of their pieces as they come: of the only piece its own, else means by tokens.

    Of embeddings the directions are averaged, and so are the norms, so that pieces of norm 1 give a text of norm 1.
    """

    def __init__(self, texts: int, dimension: int, are_embeddings: bool = True) -> None:
        self._are_embeddings = are_embeddings
        self._sums, self._weights, self._norms = torch.zeros(texts, dimension), torch.zeros(texts), torch.zeros(texts)

    def add(self, pieces: Sequence[Piece], values: torch.Tensor) -> None:
        """Take ``(p, D)`` of pieces and their parts."""
        counts = torch.tensor([len(piece.weights) for piece in pieces])
        owners = torch.tensor([piece.text for piece in pieces]).repeat_interleave(counts)
        is_only = torch.tensor([piece.is_only for piece in pieces]).repeat_interleave(counts)
        weights = torch.from_numpy(np.concatenate([piece.weights for piece in pieces])).float()
        self._sums[owners[is_only]] = values[is_only]
        owners, values, weights = owners[~is_only], values[~is_only], weights[~is_only]
        self._weights.index_add_(0, owners, weights)
        self._norms.index_add_(0, owners, values.norm(dim=1) * weights)
        self._sums.index_add_(0, owners, (normalize(values) if self._are_embeddings else values) * weights[:, None])

    def all(self) -> torch.Tensor:
        """Float32 ``(N, D)``."""
        averaged, values = self._weights > 0, self._sums.clone()
        sums, weights = values[averaged], self._weights[averaged, None]
        of_several = normalize(sums) * self._norms[averaged, None] if self._are_embeddings else sums
        values[averaged] = of_several / weights
        return values


class PassagesOfTexts:
    """The passages of N texts, from pieces as they come."""

    def __init__(self, texts: int, dimension: int) -> None:
        self._counts = np.zeros(texts, dtype=np.int64)
        self._embeddings = [np.empty((0, dimension), dtype=np.float32)]
        self._spans = [np.empty((0, 2), dtype=np.int64)]

    def add(self, pieces: Sequence[Piece], embeddings: torch.Tensor) -> None:
        """Take ``(p, D)`` of pieces and their parts."""
        self._embeddings.append(embeddings.numpy())
        for piece in pieces:
            self._counts[piece.text] += len(piece.spans)
            self._spans.append(piece.spans)

    def all(self) -> Passages:
        """What was taken."""
        return Passages(np.concatenate(self._embeddings), self._counts, np.concatenate(self._spans))
