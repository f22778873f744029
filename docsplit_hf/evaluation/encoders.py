"""Encoders of texts with fixed options, and their names on a command line."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..models.inference.encoder import DocumentEncoder
from ..models.inference.endpoint import convert_options, is_address, load_endpoint, split_name
from ..models.inference.long_documents import Passages

logger = logging.getLogger(__name__)

ENCODER_OPTIONS = {"instruction": str, "pooling": str}


class TextEncoder(Protocol):
    """Anything that turns texts into embeddings, such as ``DocumentEncoder`` and ``EndpointEncoder``."""

    @property
    def fingerprint(self) -> str:
        """What changes whenever the embeddings would: weights, tokenizer, pooling, length, instruction, precision."""

    def encode(self, texts: Sequence[str], show_progress: bool = True) -> np.ndarray:
        """Embeddings of N texts: float32 of shape ``(N, D)``, of norm 1."""


VERSION = 2  # to be raised when the same options give other embeddings


class EncoderWithOptions:
    """A ``DocumentEncoder`` with fixed options: ``long_documents``, ``bf16``."""

    def __init__(self, encoder: DocumentEncoder, **options: Any) -> None:
        self.encoder = encoder
        self.options = options

    def __repr__(self) -> str:
        return f"{self.encoder!r} with {', '.join(f'{name}={value!r}' for name, value in self.options.items())}"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps([VERSION, self.encoder.fingerprint, self.options]).encode()).hexdigest()

    def encode(self, texts: Sequence[str], show_progress: bool = True) -> np.ndarray:
        return self.encoder.encode(texts, show_progress=show_progress, **self.options)

    def encode_passages(self, texts: Sequence[str], show_progress: bool = True) -> Passages:
        """Several embeddings of each text, where ``long_documents`` is a strategy that gives them."""
        return self.encoder.encode_passages(texts, show_progress=show_progress, **self.options)


def load_encoder(
    name: str, max_length: int | None = None, bf16: bool = False, long_documents: str = "first"
) -> TextEncoder:
    """Load an encoder by its name on a command line; endpoints know none of the other arguments, which is logged.

    ====================================================  ===========================================================
    ``"sentence-transformers/all-MiniLM-L6-v2"``          a model on the Hub
    ``"docsplit-small-en"``                               the checkpoint that ships
    ``"out/docsplit"``                                    a folder: a DocSplit checkpoint, an adapter, any other encoder
    ``"hkunlp/instructor-base#instruction=Represent:"``   with an instruction before every text
    ``"google-bert/bert-base-uncased#pooling=mean"``      with another pooling than its own
    ``"https://api.openai.com/v1#text-embedding-3-small"``  a model behind an OpenAI-compatible endpoint; it may be
                                                          followed by ``#requests_per_minute=60``,
                                                          ``#max_characters=20000`` and ``#key_variable=MY_API_KEY``,
                                                          without which only OpenAI gets a key, ``OPENAI_API_KEY``
    ====================================================  ===========================================================
    """
    base, options = split_name(name)
    if is_address(base):
        if max_length is not None or bf16 or long_documents != "first":
            logger.warning(
                "%s is an endpoint: max_length, bf16 and long_documents do not reach it. '%s#max_characters=N' cuts.",
                *(base, name),
            )
        return load_endpoint(name)
    converted = convert_options(name, options, ENCODER_OPTIONS)
    encoder = DocumentEncoder.from_pretrained(base, max_length=max_length, **converted)
    if not bf16 and long_documents == "first":
        return encoder
    return EncoderWithOptions(encoder, bf16=bf16, long_documents=long_documents)
