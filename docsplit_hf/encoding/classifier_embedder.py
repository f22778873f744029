"""ClassifierEmbedder, the TextEmbedder of classifiers in this process; make_embedder chooses one for a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..arrays.passages import Predictions
from ..reading.text_warnings import unlogged
from .backends.precision import use_precision
from .checkpoints.checkpoint import load_tokenizer
from .checkpoints.fingerprint import make_probe
from .chunking import Chunk, probe_length
from .embed_chunks import embed_chunks
from .portable.configuration_knn_classifier import KNNClassifierConfig
from .portable.modeling_knn_classifier import KNNClassifier
from .portable.run_encoder import check_max_length, use_packing
from .text_embedder import ChunkedEmbedder, EmbeddingOptions, TextEmbedder, combine_chunks

LONGEST_INPUT = 1_000_000  # tokens; some tokenizers state a maximum length that is too large for their own backend


@dataclass(frozen=True)
class ClassifierEmbedder(ChunkedEmbedder, TextEmbedder):
    """Embeds and classifies texts with a ``KNNClassifier``."""

    model: KNNClassifier
    tokenizer: PreTrainedTokenizerBase

    @property
    def config(self) -> KNNClassifierConfig:
        """The configuration of the model."""
        return self.model.config

    def longest_input(self) -> int:
        """The longest input in tokens: that of the configuration, or the encoder's number of positions."""
        length = self.config.max_length or self.model.max_positions or self.tokenizer.model_max_length
        return min(length, LONGEST_INPUT)

    def use_precision(
        self, precision: str | None, calibration_texts: Sequence[str] | None = None, packing: str | None = None
    ) -> None:
        """Choose what the encoder computes in, and whether it runs without padding; None: unchanged."""
        if packing is not None:
            use_packing(self.model, packing)
        pooling = self.model.config.pooling
        use_precision(self.model.encoder, self.tokenizer, pooling, precision, calibration_texts)

    def check(self) -> None:
        """Refuse settings for long texts that do not fit the model."""
        most = self.longest_input()
        if self.config.passage_length is not None and self.config.passage_length > most:
            raise ValueError(
                f"passage_length={self.config.passage_length} is more than the {most} tokens that the model reads."
            )
        if self.max_length != self.model.max_positions:  # the check walks over all modules
            check_max_length(self.max_length, self.model.encoder)

    def probe(self) -> np.ndarray:
        """Embed three fixed texts by torch, float32 ``(3, R)``; for an encoder in int8 also in int8, ``(6, R)``."""
        longest = probe_length(self.tokenizer, self.model.config.prompt)
        options = EmbeddingOptions(max_length=longest, bf16=False, long_documents="first")
        embedder = replace(self, options=options)
        with unlogged():
            return make_probe(self.model.encoder, lambda texts: embedder.embed(texts).retrieval_embeddings)

    def embed_chunks_of(self, texts: list[str], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""
        model = self.model.eval()
        config = self.config
        if not texts:  # otherwise sizes are those of the first outputs
            no_logits = np.zeros((0, config.num_labels), np.float32)
            return Predictions(no_logits, np.zeros((0, config.retrieval_size), np.float32), read_fraction=np.ones(0))
        first_pooled = self.chunk_settings().first_pooled

        def pool_states(states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            output = model.read_states(states, mask, first_pooled)
            return output.retrieval_embeddings, output.logits

        groups = embed_chunks(
            model=model,
            name=f"{type(model).__name__} {config.name_or_path}".rstrip(),
            tokenizer=self.tokenizer,
            texts=texts,
            chunks=chunks,
            options=replace(self.options, long_documents=self.long_documents),
            pool_states=pool_states,
        )
        outputs = ((group, embeddings.numpy(), logits.numpy()) for group, (embeddings, logits) in groups)
        return combine_chunks(outputs, len(texts), self.long_documents)


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
    if getattr(model.config, "endpoint", None):
        from .backends.endpoint_classifier import EndpointEmbedder

        return EndpointEmbedder(model, tokenizer=None, options=embedding_options)
    name = model.config.name_or_path
    if tokenizer is None and not name:
        raise ValueError("The pipeline needs a tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...).")
    tokenizer = tokenizer or load_tokenizer(name, getattr(model, "loaded_revision", None))
    return ClassifierEmbedder(model, tokenizer, embedding_options)
