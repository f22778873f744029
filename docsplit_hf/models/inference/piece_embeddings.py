"""From what was read of pieces to the embeddings of texts, however many pieces each has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..portable.packing import is_packed, run_encoder
from .batching import inference_batches, inference_mode
from .bfloat16 import BFloat16, is_in_bfloat16
from .long_documents.pieces import Piece, grouped
from .passages import Passages


class Run(NamedTuple):
    """How an encoder runs over pieces; None: as many tokens and pieces in a batch as usual, and as it was loaded."""

    unit: str  # of the progress bar
    max_tokens: int | None = None
    max_pieces: int | None = None
    bf16: BFloat16 = None
    show_progress: bool = False


class Reading(NamedTuple):
    """The states of what is pooled apart in a batch of pieces."""

    states: torch.Tensor  # (parts, l, H)
    attention_mask: torch.Tensor  # (parts, l)
    prompt_length: int  # how many tokens of each are a prompt, which is not pooled
    places: np.ndarray  # (parts,): where the embeddings stand among those of all pieces
    texts: np.ndarray  # (parts,): the numbers of the texts
    pieces: int  # how many were read


def read_in_groups(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    pieces: Iterable[Piece],
    run: Run,
    sizes: Sequence[int],
    say: Callable[[Reading], Sequence[torch.Tensor]],
    prompt_length: int = 0,
) -> Iterator[tuple[list[Piece], list[torch.Tensor]]]:
    """Pieces of texts, a group at a time, and what ``say`` makes of their parts: float32 ``(parts, size)`` each.

    The tensors are on the CPU, one for each of the ``sizes``.
    """
    in_bf16 = is_in_bfloat16(encoder, run.bf16, encoder.device)
    with tqdm(total=len(texts), desc="Embedding", unit=run.unit, disable=not run.show_progress) as progress:
        for group, progress.total in grouped(pieces, texts):
            said = [torch.empty(sum(len(piece.weights) for piece in group), size) for size in sizes]
            with inference_mode(encoder.device, in_bf16):
                for read in _read_in_batches(encoder, tokenizer, group, run, prompt_length):
                    for values, found in zip(said, say(read), strict=True):
                        values[read.places] = found.float().cpu()
                    progress.update(read.pieces)
            yield group, said


def _read_in_batches(
    encoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pieces: Sequence[Piece],
    run: Run,
    prompt_length: int,
) -> Iterator[Reading]:
    counts = [len(piece.weights) for piece in pieces]
    places = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    rows = [{"input_ids": piece.input_ids} for piece in pieces]
    if _reads_pairs(encoder) and any(piece.token_type_ids is not None for piece in pieces):
        for row, piece in zip(rows, pieces, strict=True):
            types = piece.token_type_ids
            row["token_type_ids"] = np.zeros_like(piece.input_ids) if types is None else types
    limits = run.max_tokens, run.max_pieces, is_packed(encoder.base_model)
    for numbers, batch in inference_batches(rows, tokenizer, encoder.device, *limits):
        states = run_encoder(encoder, **batch).last_hidden_state
        read = [pieces[number] for number in numbers]
        texts = np.repeat([piece.text for piece in read], [counts[number] for number in numbers])
        parts = _parts_of(states, batch["attention_mask"], read, prompt_length)
        yield Reading(*parts, np.concatenate([places[number] for number in numbers]), texts, len(numbers))


def _reads_pairs(encoder: PreTrainedModel) -> bool:
    """Whether an encoder asks which of two texts a token belongs to."""
    return "token_type_ids" in inspect.signature(encoder.forward).parameters


def _parts_of(
    states: torch.Tensor, attention_mask: torch.Tensor, pieces: Sequence[Piece], prompt_length: int
) -> tuple[torch.Tensor, torch.Tensor, int]:
    if all(piece.parts is None for piece in pieces):
        return states, attention_mask, prompt_length
    rows = []
    for row, piece in zip(states, pieces, strict=True):
        length = len(piece.input_ids)
        whole = [(min(prompt_length, length - 1), length)]
        rows += [row[start:end] for start, end in (whole if piece.parts is None else piece.parts[:, :2].tolist())]
    masks = [torch.ones(len(row), dtype=attention_mask.dtype, device=states.device) for row in rows]
    return pad_sequence(rows, True), pad_sequence(masks, True), 0


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
