"""ChunkedEmbedder: what embedders share that cut texts into chunks, by torch or by ONNX Runtime. No torch here."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..arrays.passages import Predictions
from ..reading.text_warnings import log_at_end
from ..reading.tokenization import check_texts
from .chunk_outputs import EmbeddedChunks
from .chunking import Chunk, most_tokens
from .embedding_options import EmbeddingOptions

logger = logging.getLogger(__name__)


class ChunkedEmbedder(ABC):
    """Embeds texts in chunks, all at once or, for a server, some at a time."""

    options: EmbeddingOptions

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The longest input in tokens."""

    @property
    @abstractmethod
    def long_documents(self) -> str:
        """The strategy for long texts."""

    @abstractmethod
    def nothing_embedded(self, texts: int) -> EmbeddedChunks:
        """Collect the outputs of ``embed_part`` for this number of texts."""

    @abstractmethod
    def embed_part(
        self, texts: list[str], pairs: list[str | None], chunks: Iterable[Chunk], embedded: EmbeddedChunks
    ) -> None:
        """Embed some of the chunks of checked texts, in their order, and add the outputs to ``embedded``."""

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

    def embed_chunks_of(self, texts: list[str], pairs: list[str | None], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""
        embedded = self.nothing_embedded(len(texts))
        self.embed_part(texts, pairs, chunks, embedded)
        return embedded.all()

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
