"""make_embedder: choose the TextEmbedder for a classifier's model."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .backends.endpoint import EndpointClassifier
from .checkpoints.checkpoint import load_tokenizer
from .classifier_embedder import ClassifierEmbedder
from .embedding_options import EmbeddingOptions
from .endpoint_embedder import EndpointEmbedder
from .text_embedder import TextEmbedder


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
