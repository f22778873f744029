"""TextEmbedder: base class for computing embeddings and logits of texts; ChunkedEmbedder, for those in chunks.

No torch here: texts are read by torch, by ONNX Runtime, or by an endpoint.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from ..arrays.passages import Predictions
from ..reading.text_warnings import log_at_end, warn_of_unfamiliar_texts
from ..reading.tokenization import check_texts
from .chunking import SINGLE_CHUNK, Chunk, ChunkSettings, read_chunks

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


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
        progress_delay: Seconds before the progress bar appears.
    """

    max_length: int | None = None
    max_tokens_per_batch: int | None = None
    batch_size: int | None = None
    bf16: bool | Literal["auto"] | None = None
    long_documents: str | None = None
    max_passages: int | None = None
    show_progress: bool = False
    progress_delay: float = 0.0


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
        chunks = self.chunks(texts, text_pairs)
        return self.embed_chunks_of(list(texts), chunks)

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
    if empty:
        logger.warning("%d of %d texts are empty: their embeddings carry no information.", empty, texts)
