"""TextEmbedder: base class for computing embeddings and logits of texts, in this process or by an endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..arrays.passages import Predictions
from .embedding_options import EmbeddingOptions


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
