"""ClassifierEmbedder, the TextEmbedder of classifiers in this process; make_embedder chooses one for a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..arrays.passages import Predictions
from ..reading.text_warnings import unlogged, warn_of_unfamiliar_texts
from .backends.precision import use_precision
from .checkpoints.checkpoint import load_tokenizer
from .checkpoints.fingerprint import make_probe
from .chunk_outputs import EmbeddedChunks
from .chunking import Chunk, ChunkSettings, probe_length, read_chunks_of
from .embed_chunks import embed_chunks
from .portable.modeling_knn_classifier import KNNClassifier
from .portable.run_encoder import check_max_length, max_positions, use_packing
from .text_embedder import ChunkedEmbedder, EmbeddingOptions, TextEmbedder, checked_texts_and_pairs

LONGEST_INPUT = 1_000_000  # tokens; some tokenizers state a maximum length that is too large for their own backend


@dataclass(frozen=True)
class ClassifierEmbedder(ChunkedEmbedder, TextEmbedder):
    """Embeds and classifies texts with a ``KNNClassifier``."""

    model: KNNClassifier
    tokenizer: PreTrainedTokenizerBase

    is_local = True

    @property
    def max_length(self) -> int:
        """The longest input in tokens: the option, or the configuration's, or the encoder's number of positions."""
        return self.options.max_length or self._model_max_length()

    @property
    def long_documents(self) -> str:
        """The strategy for long texts: the option, or the configuration's."""
        return self.options.long_documents or self.model.config.long_documents

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
        config = self.model.config
        most = self._model_max_length()
        if config.passage_length is not None and config.passage_length > most:
            raise ValueError(
                f"passage_length={config.passage_length} is more than the {most} tokens that the model reads."
            )

    def probe(self) -> np.ndarray:
        """Embed three fixed texts by torch, float32 ``(3, R)``; for an encoder in int8 also in int8, ``(6, R)``."""
        longest = probe_length(self.tokenizer, self.model.config.prompt)
        options = EmbeddingOptions(max_length=longest, bf16=False, long_documents="first")
        embedder = replace(self, options=options)
        with unlogged():
            return make_probe(self.model.encoder, lambda texts: embedder.embed(texts).retrieval_embeddings)

    def embed_chunks_of(self, texts: list[str], pairs: list[str | None], chunks: Iterable[Chunk]) -> Predictions:
        """Embed all chunks of checked texts, and combine those of each text."""
        model = self.model
        config = model.config
        embedded = EmbeddedChunks(len(texts), config.retrieval_size, config.num_labels, self.long_documents)
        settings = self.chunk_settings(pairs)

        def pool_states(states: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            output = model.read_states(states, mask, settings.first_pooled)
            return output.retrieval_embeddings, output.logits

        groups = embed_chunks(
            model=model,
            name=f"{type(model).__name__} {config.name_or_path}".rstrip(),
            settings=settings,
            texts=texts,
            chunks=chunks,
            options=replace(self.options, long_documents=self.long_documents),
            sizes=[config.retrieval_size, config.num_labels],
            pool_states=pool_states,
        )
        for group, (embeddings, logits) in groups:
            embedded.add(group, embeddings.numpy(), logits.numpy())
        return embedded.all()

    def _checked(
        self, texts: Sequence[str], text_pairs: Sequence[str | None] | None
    ) -> tuple[list[str], list[str | None]]:
        """Check texts and pairs, and prepare the model."""
        texts, pairs = checked_texts_and_pairs(texts, text_pairs)
        warn_of_unfamiliar_texts(texts, self.tokenizer)
        self.check()
        self.model.eval()
        return texts, pairs

    def chunk_settings(self, pairs: Sequence[str | None] = ()) -> ChunkSettings:
        """The settings of the chunks of texts, or of pairs of texts."""
        return ChunkSettings.of(
            self.tokenizer,
            check_max_length(self.max_length, self.model.encoder),
            prompt=self.model.config.prompt,
            include_prompt=self.model.config.include_prompt,
            is_paired=any(pair is not None for pair in pairs),
        )

    def _model_max_length(self) -> int:
        """The longest input in tokens without the option."""
        config_length = self.model.config.max_length
        length = config_length or max_positions(self.model.encoder) or self.tokenizer.model_max_length
        return min(length, LONGEST_INPUT)

    def _chunks(self, texts: list[str], pairs: list[str | None]) -> Iterator[Chunk]:
        """The chunks of texts, or of pairs of texts."""
        settings = self.chunk_settings(pairs)
        passage_length = self.model.config.passage_length
        return read_chunks_of(texts, pairs, settings, self.long_documents, passage_length, self.options.max_passages)


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
        from .backends.endpoint import EndpointEmbedder

        return EndpointEmbedder(model, tokenizer=None, options=embedding_options)
    name = model.config.name_or_path
    if tokenizer is None and not name:
        raise ValueError("The pipeline needs a tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...).")
    tokenizer = tokenizer or load_tokenizer(name, getattr(model, "loaded_revision", None))
    return ClassifierEmbedder(model, tokenizer, embedding_options)
