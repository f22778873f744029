"""Prune an encoder: keep some of its layers or none of them, and the most frequent tokens of its vocabulary."""

from __future__ import annotations

import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from ..reading.tokenization import special_tokens_around
from .portable.run_encoder import run_encoder

logger = logging.getLogger(__name__)

FREQUENCY_SMOOTHING = 1e-3  # a of a / (a + p), as in Arora et al. 2017
TOKENS_AT_ONCE = 1024
# With so large an epsilon, layer normalization divides all vectors by about the same number, the root of epsilon.
LINEAR_EPSILON = 1e6


def keep_layers(model: PreTrainedModel, layers: Sequence[int]) -> None:
    """Remove all layers of an encoder but these, counted from 0, such as ``[0, 2, 5]`` of six; in place."""
    modules = _layers_of(model)
    existing = {layer for layer in layers if 0 <= layer < len(modules)}
    if not layers or list(layers) != sorted(existing):
        raise ValueError(
            f"The layers to keep must be from 0 to {len(modules) - 1}, in rising order, got {list(layers)}."
        )
    kept = [modules[layer] for layer in layers]
    del modules[len(kept) :]
    for place, module in enumerate(kept):
        modules[place] = module
    model.config.num_hidden_layers = len(kept)


def _layers_of(model: PreTrainedModel) -> nn.ModuleList:
    """The list of an encoder's layers."""
    count = model.config.num_hidden_layers
    lists = [module for module in model.base_model.modules() if isinstance(module, nn.ModuleList)]
    candidates = [module for module in lists if len(module) == count]
    if len(candidates) != 1:
        raise ValueError(f"{type(model).__name__} has no single list of {count} layers: it cannot be pruned.")
    return candidates[0]


def keep_frequent_tokens(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, size: int, texts: Iterable[str]
) -> PreTrainedTokenizerBase:
    """Remove all tokens of a WordPiece vocabulary but the most frequent ones in texts; the model is changed in place.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        size: The number of tokens to keep. Special tokens and ASCII characters are always among them.
        texts: Texts in which tokens are counted.

    Returns:
        A tokenizer with the remaining tokens. It splits words that have lost their token into several tokens.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    if state["model"]["type"] != "WordPiece":
        raise ValueError(f"The vocabulary is of {state['model']['type']}, and only one of WordPiece can be pruned.")
    vocabulary = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    if size >= len(vocabulary):
        raise ValueError(f"The vocabulary has {len(vocabulary)} tokens: keep fewer, got vocab_size={size}.")
    counts = _count_tokens(tokenizer, texts)
    always_kept = set(tokenizer.all_special_tokens) | {added["content"] for added in state["added_tokens"]}
    kept = _tokens_to_keep(vocabulary, counts, size, always_kept)
    covered = 100 * sum(counts[token_id] for token_id in kept) / max(counts.total(), 1)
    logger.info("Kept the %d most frequent of %d tokens: %.2f %% of the texts.", size, len(vocabulary), covered)
    smaller = _tokenizer_with_vocabulary(tokenizer, state, [vocabulary[token_id] for token_id in kept])
    _keep_rows(model, torch.tensor(kept))
    model.config.pad_token_id = smaller.pad_token_id
    return smaller


def _tokens_to_keep(vocabulary: list[str], counts: Counter[int], size: int, always_kept: set[str]) -> list[int]:
    """The ids of the tokens to keep, in rising order; among equally frequent ones, those with the lowest ids."""

    needed = {token for token in vocabulary if len(token.removeprefix("##")) == 1 and token[-1].isascii()} | always_kept
    ranked = sorted(range(len(vocabulary)), key=lambda i: (vocabulary[i] in needed, counts[i]), reverse=True)
    if vocabulary[ranked[size]] in needed:
        raise ValueError(f"vocab_size={size} has no room for the special tokens and the ASCII characters: raise it.")
    return sorted(ranked[:size])


def _tokenizer_with_vocabulary(
    tokenizer: PreTrainedTokenizerBase, state: dict, tokens: list[str]
) -> PreTrainedTokenizerBase:
    """Copy a tokenizer with another vocabulary; ``state``: the content of its tokenizer.json, which is changed."""
    new_ids = {token: token_id for token_id, token in enumerate(tokens)}
    state["model"]["vocab"] = new_ids
    for added in state["added_tokens"]:
        added["id"] = new_ids[added["content"]]
    for special in (state.get("post_processor") or {}).get("special_tokens", {}).values():
        special["ids"] = [new_ids[token] for token in special["tokens"]]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        (Path(folder) / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
        return AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def _keep_rows(model: PreTrainedModel, kept: torch.Tensor) -> None:
    """Remove all rows but these of the token embeddings, and of a masked-LM head that shares them."""
    rows = model.get_input_embeddings().weight[kept].clone()
    head = model.get_output_embeddings()
    bias = None
    if head is not None and head.bias is not None:
        bias = head.bias[kept].clone()
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.copy_(rows)
    if bias is not None:
        model.get_output_embeddings().bias.copy_(bias)


@torch.no_grad()
def keep_tokens_alone(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> None:
    """Make an encoder static, in place: without layers, so that a text's embedding is the mean of its tokens' vectors.

    The vector of a token is the encoder's embedding of the token alone, minus the mean over all tokens, times
    ``a / (a + p)``: p is the token's relative frequency in ``texts``, and a is 0.001 (Arora et al. 2017, section 3).
    The model keeps its architecture, such as BERT's, with no layers, and with a layer normalization that only subtracts
    the mean of a vector. Use it with mean pooling.
    """
    encoder = model.base_model
    table = model.get_input_embeddings()
    parent = next(module for module in encoder.modules() if any(child is table for child in module.children()))
    norms = [module for module in parent.children() if isinstance(module, nn.LayerNorm)]
    if len(norms) != 1 or norms[0].eps != getattr(model.config, "layer_norm_eps", None):
        raise ValueError(
            f"{type(model).__name__} has no layer normalization right after its token embeddings: it cannot be made "
            "static."
        )
    vectors = _static_vectors(encoder.eval(), tokenizer, _count_tokens(tokenizer, texts), len(table.weight))
    del _layers_of(model)[:]
    model.config.num_hidden_layers = 0
    for module in parent.children():
        if isinstance(module, nn.Embedding):  # positions and segments would add the same vector to all texts
            module.weight.zero_().requires_grad_(False)
    table.weight.copy_(vectors).requires_grad_()
    norms[0].eps = LINEAR_EPSILON
    model.config.layer_norm_eps = LINEAR_EPSILON
    norms[0].weight.fill_(LINEAR_EPSILON**0.5).requires_grad_(False)
    norms[0].bias.zero_().requires_grad_(False)


def _static_vectors(
    encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, counts: Counter[int], size: int
) -> torch.Tensor:
    """The static vector of each token, float32 ``(size, D)``; those of special tokens are 0."""
    vectors = _embed_tokens(encoder, tokenizer, size)
    frequencies = torch.tensor([counts[token_id] for token_id in range(size)]) / max(counts.total(), 1)
    vectors = (vectors - vectors.mean(0)) * (FREQUENCY_SMOOTHING / (FREQUENCY_SMOOTHING + frequencies))[:, None]
    vectors[tokenizer.all_special_ids] = 0
    vectors /= vectors.norm(dim=1).mean()  # a scale for usual learning rates; text embeddings are normalized anyway
    return vectors


def _embed_tokens(encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, count: int) -> torch.Tensor:
    """Embed each token alone: the mean of its state and of the special tokens' around it, float32 ``(count, D)``."""
    prefix, suffix = special_tokens_around(tokenizer)
    prefix = torch.tensor(prefix, dtype=torch.long, device=encoder.device)
    suffix = torch.tensor(suffix, dtype=torch.long, device=encoder.device)
    embeddings = []
    for tokens in torch.arange(count, device=encoder.device).split(TOKENS_AT_ONCE):
        ids = torch.cat([prefix.expand(len(tokens), -1), tokens[:, None], suffix.expand(len(tokens), -1)], dim=1)
        states = run_encoder(encoder, ids, torch.ones_like(ids)).last_hidden_state
        embeddings.append(states.mean(1).float())
    return torch.cat(embeddings)


def _count_tokens(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Counter[int]:
    """How often each token occurs in texts, by its id."""
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    return counts
