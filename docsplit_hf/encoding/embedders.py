"""make_embedder: choose the TextEmbedder for a classifier's model; EndpointEmbedder, for one behind an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..arrays.passages import Predictions
from ..arrays.probe import PROBE_TEXTS
from .backends.endpoint import EndpointClassifier
from .checkpoints.checkpoint import load_tokenizer
from .classifier_embedder import ClassifierEmbedder
from .embedding_options import EmbeddingOptions
from .text_embedder import TextEmbedder

# Options and settings that have no effect on an endpoint.
UNSUPPORTED = (
    "max_length",
    "max_tokens_per_batch",
    "bf16",
    "long_documents",
    "passage_length",
    "max_passages",
    "prompt",
)


@dataclass(frozen=True)
class EndpointEmbedder(TextEmbedder):
    """Embeds texts with an ``EndpointClassifier``. How much of a long text the endpoint reads is unknown."""

    model: EndpointClassifier

    is_local = False

    @property
    def max_length(self) -> None:
        """None: it is unknown."""
        return None

    def use_precision(
        self, precision: str | None, calibration_texts: Sequence[str] | None = None, packing: str | None = None
    ) -> None:
        """Refuse a precision; packing has no effect."""
        if precision is not None or calibration_texts is not None:
            raise ValueError("precision and calibration_texts have no effect on an endpoint: leave them out.")

    def check(self) -> None:
        """Refuse options and settings that have no effect on the endpoint."""
        for name in UNSUPPORTED:
            value = getattr(self.options, name, None) or getattr(self.model.config, name, None)
            if value not in (None, False, "", "first"):
                raise ValueError(
                    f"{name}={value!r} has no effect on {self.model.endpoint!r}: leave it out. "
                    "'https://HOST/v1#MODEL#max_characters=N' sends at most N characters of a text."
                )

    def probe(self) -> np.ndarray:
        """Embed three fixed texts: float32 ``(3, R)``."""
        return replace(self, options=EmbeddingOptions()).embed(PROBE_TEXTS).retrieval_embeddings

    def embed(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Embed N texts: embeddings of norm 1, and no logits."""
        if any(pair is not None for pair in text_pairs or ()):
            raise ValueError(f"{self.model.endpoint!r} embeds no pairs: join the two texts of a pair into one.")
        self.check()
        embeddings = self.model.endpoint.encode(
            texts, show_progress=self.options.show_progress, batch_size=self.options.batch_size
        )
        logits = np.empty((len(embeddings), 0), dtype=np.float32)
        return Predictions(logits, embeddings)


def make_embedder(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None, **options: Any
) -> TextEmbedder:
    """Make the embedder for a classifier's model.

    Args:
        model: A ``KNNClassifier``, an encoder that will become one, or an ``EndpointClassifier``.
        tokenizer: Its tokenizer. None: the one of the checkpoint that the model was loaded from.
        **options: The fields of ``EmbeddingOptions``.

    Returns:
        An ``EndpointEmbedder`` for an ``EndpointClassifier``, a ``ClassifierEmbedder`` otherwise.

    Raises:
        ValueError: If there is no tokenizer, and the model was not loaded from a checkpoint.
    """
    embedding_options = EmbeddingOptions(**options)
    if isinstance(model, EndpointClassifier):
        return EndpointEmbedder(model, tokenizer=None, options=embedding_options)
    name = model.config.name_or_path
    if tokenizer is None and not name:
        raise ValueError("The pipeline needs a tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...).")
    tokenizer = tokenizer or load_tokenizer(name, getattr(model, "loaded_revision", None))
    return ClassifierEmbedder(model, tokenizer, embedding_options)
