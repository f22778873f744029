"""TextEmbedder: base class for computing embeddings and logits of texts; EmbeddingOptions: the options of a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..arrays.passages import Predictions
from .backends.torch_backend import BFloat16


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
    bf16: BFloat16 = None
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
