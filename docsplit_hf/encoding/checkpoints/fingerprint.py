"""Identify an encoder: by a checksum of everything that its embeddings depend on, or by embeddings of fixed texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...arrays.probe import PROBE_TEXTS
from ...content_hash import sha256_of_parts
from ..portable.run_encoder import engine_of, without_engine

# Raise it when docsplit_hf computes other embeddings from the same encoder, so that cached ones are not used.
VERSION = 1
# Settings about a model's origin or its files, which do not change its embeddings.
SETTINGS_WITHOUT_EFFECT = ("architectures", "docsplit", "dtype", "torch_dtype", "transformers_version", "use_cache")


def encoder_fingerprint(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, projection: nn.Module | None = None, **settings: Any
) -> str:
    """The SHA-256 of everything that embeddings depend on, including the weights' dtype, without device and packing."""
    config = {
        key: value
        for key, value in model.config.to_dict().items()
        if key not in SETTINGS_WITHOUT_EFFECT and not key.startswith("_")
    }
    described = [VERSION, type(model).__name__, config, _tokenizer_state(tokenizer), settings]
    if projection is not None:
        described.append(repr(projection))  # its activations have no weights
    settings_content = json.dumps(described, sort_keys=True, default=str).encode()
    weights = chain(_weights_content(model), () if projection is None else _weights_content(projection))
    return sha256_of_parts(chain([settings_content], weights))


def _weights_content(module: nn.Module) -> Iterator[bytes | np.ndarray]:
    """The content of the weights: name, dtype, shape and bytes of each."""
    for name, tensor in sorted(module.state_dict().items()):
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode()
        yield tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()


def make_probe(encoder: nn.Module, embed: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
    """The embeddings of ``PROBE_TEXTS`` by torch, followed by those in int8 if the encoder runs in int8."""
    engine = engine_of(encoder)
    with without_engine(encoder):
        probe = embed(PROBE_TEXTS)
    if engine is None:
        return probe
    return np.concatenate([probe, embed(PROBE_TEXTS)])


def _tokenizer_state(tokenizer: PreTrainedTokenizerBase | None) -> Any:
    """The state of a tokenizer as JSON values."""
    if tokenizer is None:  # an endpoint has none
        return None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return [type(tokenizer).__name__, tokenizer.get_vocab(), tokenizer.special_tokens_map]
    state = json.loads(backend.to_str())
    # Truncation and padding remain from the last call, and do not change the encoder's input.
    return {key: value for key, value in state.items() if key not in ("truncation", "padding")}
