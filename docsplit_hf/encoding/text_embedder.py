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
from ..reading.text_warnings import log_at_end
from ..reading.tokenization import check_texts
from .chunking import Chunk, most_tokens

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
    """Embeds texts in chunks."""

    options: EmbeddingOptions

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The longest input in tokens."""

    @property
    @abstractmethod
    def long_documents(self) -> str:
        """The strategy for long texts."""

    def embed(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Compute logits and retrieval embeddings of N texts or pairs, in order; a pair of None is a single text.

        Raises:
            TypeError: If a text is no string.
            ValueError: If options do not fit together.
        """
        checked, pairs = self._checked(texts, text_pairs)
        return self.embed_chunks_of(checked, pairs, self._chunks(checked, pairs))

    def chunks(self, texts: Sequence[str], text_pairs: Sequence[str | None]) -> Iterator[Chunk]:
        """Tokenize texts or pairs and cut them into chunks little by little, for the methods below."""
        return self._chunks(*self._checked(texts, text_pairs))

    @abstractmethod
    def embed_chunks_of(self, texts: list[str], pairs: list[str | None], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""

    def most_tokens(self, is_paired: bool) -> int | None:
        """The most tokens that are read of a text; None: all of them."""
        return most_tokens(self.long_documents, self.max_length, self.options.max_passages, is_paired)

    @abstractmethod
    def _checked(
        self, texts: Sequence[str], text_pairs: Sequence[str | None] | None
    ) -> tuple[list[str], list[str | None]]:
        """Check texts and pairs, and prepare the model."""

    @abstractmethod
    def _chunks(self, texts: list[str], pairs: list[str | None]) -> Iterator[Chunk]:
        """The chunks of texts, or of pairs of texts."""


def checked_texts_and_pairs(
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
