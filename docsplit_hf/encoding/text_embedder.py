"""TextEmbedder: base class for computing embeddings and logits of texts; ChunkedEmbedder, for those in chunks.

The outputs of the chunks of a text are combined here, too: averages, passages, and how much was read. No torch here:
texts are read by torch, by ONNX Runtime, or by an endpoint.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from ..arrays.passages import Passages, Predictions
from ..reading.text_warnings import log_at_end, warn_of_unfamiliar_texts
from ..reading.tokenization import check_texts
from .chunking import PASSAGES, SINGLE_CHUNK, Chunk, ChunkSettings, read_chunks

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

SMALLEST_NORM = 1e-12  # as in torch.nn.functional.normalize


@dataclass(frozen=True)
class EmbeddingOptions:
    """Options of a call that embeds texts. None: the default of the model or of the device.

    Args:
        max_length: Longest input in tokens, special tokens included.
        max_tokens_per_batch: Most tokens in one forward pass, padding included.
        batch_size: Most chunks of texts in one forward pass.
        bf16: Whether torch computes in bfloat16; ``"auto"``: if the hardware has it. None: as the model was loaded.
        long_documents: Strategy for texts longer than ``max_length``.
        max_passages: Most passages that are read of a text.
        show_progress: Whether to show a progress bar.
    """

    max_length: int | None = None
    max_tokens_per_batch: int | None = None
    batch_size: int | None = None
    bf16: bool | Literal["auto"] | None = None
    long_documents: str | None = None
    max_passages: int | None = None
    show_progress: bool = False


@dataclass(frozen=True)
class TextEmbedder(ABC):
    """A classifier's model with its tokenizer and the options of a call; ``make_embedder`` chooses the subclass."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    options: EmbeddingOptions = EmbeddingOptions()

    is_local: ClassVar[bool]  # whether the model runs in this process; if not, it is unknown how much of a text is read

    def with_options(self, **changes: Any) -> Self:
        """Copy the embedder with other values of some ``EmbeddingOptions``."""
        return replace(self, options=replace(self.options, **changes))

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """The longest input in tokens; None if it is unknown."""

    @abstractmethod
    def use_precision(
        self, precision: str | None, calibration_texts: Sequence[str] | None = None, packing: str | None = None
    ) -> None:
        """Choose what the encoder computes in, and whether it runs without padding; None: unchanged."""

    @abstractmethod
    def check(self) -> None:
        """Refuse options and settings that do not fit the model."""

    @abstractmethod
    def probe(self) -> np.ndarray:
        """Embed fixed texts, by which a datastore recognizes the encoder: float32 ``(P, R)``."""

    @abstractmethod
    def embed(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Embed and classify N texts, or pairs of texts, in order; a pair of None is a single text."""


class ChunkedEmbedder(ABC):
    """Embeds texts in chunks; what a text is and how it is read is the same for torch and for ONNX Runtime."""

    is_local = True

    config: Any  # KNNClassifierConfig, or the ExportedModel of a graph
    tokenizer: Any
    options: EmbeddingOptions

    @property
    def max_length(self) -> int:
        """The longest input in tokens: the option, or that of the model."""
        return self.options.max_length or self.longest_input()

    @property
    def long_documents(self) -> str:
        """The strategy for long texts: the option, or that of the configuration."""
        return self.options.long_documents or self.config.long_documents

    def embed(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Compute logits and retrieval embeddings of N texts or pairs, in order; a pair of None is a single text.

        Raises:
            TypeError: If a text is no string.
            ValueError: If options do not fit together.
        """
        return self.embed_chunks_of(list(texts), self.chunks(texts, text_pairs))

    def chunks(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Iterator[Chunk]:
        """Tokenize texts or pairs and cut them into chunks little by little, for ``embed_chunks_of``."""
        texts, pairs = _checked_texts_and_pairs(texts, text_pairs)
        warn_of_unfamiliar_texts(texts, self.tokenizer)
        self.check()
        is_paired = any(pair is not None for pair in pairs)
        passage_length = self.config.passage_length
        if passage_length is not None:
            passage_length = min(passage_length, self.max_length)
        return read_chunks(
            texts,
            self.chunk_settings(is_paired),
            self.long_documents,
            passage_length=passage_length,
            max_passages=self.options.max_passages,
            pairs=pairs if is_paired else None,
        )

    def chunk_settings(self, is_paired: bool = False) -> ChunkSettings:
        """The settings of the chunks of texts, or of pairs of texts."""
        return ChunkSettings.of(
            self.tokenizer,
            self.max_length,
            prompt=self.config.prompt,
            include_prompt=self.config.include_prompt,
            is_paired=is_paired,
        )

    def most_tokens(self, is_paired: bool) -> int | None:
        """The most tokens that are read of a text; None: all of them."""
        if is_paired or self.long_documents in SINGLE_CHUNK:
            return self.max_length
        return None if self.options.max_passages is None else self.options.max_passages * self.max_length

    @abstractmethod
    def longest_input(self) -> int:
        """The longest input in tokens without the option."""

    @abstractmethod
    def check(self) -> None:
        """Refuse options and settings that do not fit the model."""

    @abstractmethod
    def embed_chunks_of(self, texts: list[str], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""


def _checked_texts_and_pairs(
    texts: Sequence[str], text_pairs: Sequence[str | None] | None
) -> tuple[list[str], list[str | None]]:
    """N texts and their pairs as lists, checked; a pair of None is a single text."""
    check_texts(texts)
    pairs = [None] * len(texts) if text_pairs is None else list(text_pairs)
    check_texts([pair for pair in pairs if pair is not None], "Text pair")
    if len(pairs) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(pairs)} text pairs: give one pair for each text.")
    texts = list(texts)  # indexing a Series would look up its index
    empty = sum(not text.strip() for text in texts)
    log_at_end(_log_empty, (), np.array([empty, len(texts)]))
    return texts, pairs


def _log_empty(counts: np.ndarray, _: str) -> None:
    """Log how many texts are empty; ``counts``: empty texts, and all texts."""
    empty, texts = counts.tolist()
    logger.warning("%d of %d texts are empty: their embeddings carry no information.", empty, texts)


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


def combine_chunks(
    groups: Iterator[tuple[Sequence[Chunk], np.ndarray, np.ndarray]],
    texts: int,
    strategy: str,
) -> Predictions:
    """Combine the chunks of each of N texts, at least one, by groups of chunks with their embeddings and logits.

    ``strategy``: the one that made the chunks.
    """
    first = next(groups)
    dimension = first[1].shape[1]
    embeddings = ChunkAverages(texts, dimension, strategy)
    logits = ChunkAverages(texts, first[2].shape[1], strategy, are_embeddings=False)
    passages = PassagesOfTexts(texts, dimension) if strategy == PASSAGES else None
    read_fraction = np.ones(texts)
    for chunks, embeddings_of_chunks, logits_of_chunks in chain([first], groups):
        embeddings.add(chunks, embeddings_of_chunks)
        logits.add(chunks, logits_of_chunks)
        read_fraction[[chunk.text for chunk in chunks]] = [chunk.read_fraction for chunk in chunks]
        if passages is not None:
            passages.add(chunks, embeddings_of_chunks)
    found = None if passages is None else passages.all()
    return Predictions(
        logits=logits.all(),
        retrieval_embeddings=embeddings.all(),
        read_fraction=read_fraction,
        passages=None if found is None or (found.counts == 1).all() else found,
    )
