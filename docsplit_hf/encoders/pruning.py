"""Pruning: keep some layers of an encoder, or none, and the most frequent part of its vocabulary."""

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

from ..text.tokenization import special_tokens_around
from .portable.run_encoder import run_encoder

logger = logging.getLogger(__name__)


def keep_layers(model: PreTrainedModel, layers: Sequence[int]) -> None:
    """Keep only these layers of an encoder, counted from 0, such as ``[0, 2, 5]`` of six."""
    modules = _layers_of(model)
    existing = {layer for layer in layers if 0 <= layer < len(modules)}
    if not layers or list(layers) != sorted(existing):
        raise ValueError(f"The layers to keep are some of 0 to {len(modules) - 1} in rising order, got {list(layers)}.")
    kept = [modules[layer] for layer in layers]
    del modules[len(kept) :]
    for place, module in enumerate(kept):
        modules[place] = module
    model.config.num_hidden_layers = len(kept)


def _layers_of(model: PreTrainedModel) -> nn.ModuleList:
    count = model.config.num_hidden_layers
    lists = [module for module in model.base_model.modules() if isinstance(module, nn.ModuleList)]
    found = [module for module in lists if len(module) == count]
    if len(found) != 1:
        raise ValueError(f"{type(model).__name__} has no single list of {count} layers: it cannot be cut here.")
    return found[0]


def keep_frequent_tokens(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, size: int, texts: Iterable[str]
) -> PreTrainedTokenizerBase:
    """Keep the ``size`` most frequent tokens of a WordPiece vocabulary in texts, and return a tokenizer of these.

    Special tokens and ASCII characters are always kept. Words without a token of their own become several tokens.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    if state["model"]["type"] != "WordPiece":
        raise ValueError(f"A vocabulary of {state['model']['type']} cannot be cut here, only one of WordPiece.")
    vocabulary = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    if size >= len(vocabulary):
        raise ValueError(f"The vocabulary has {len(vocabulary)} tokens: keep fewer, got vocab_size={size}.")
    counts = _count_tokens(tokenizer, texts)
    always_kept = set(tokenizer.all_special_tokens) | {added["content"] for added in state["added_tokens"]}

    def is_always_kept(number: int) -> bool:
        token = vocabulary[number]
        character = token.removeprefix("##")
        return token in always_kept or (len(character) == 1 and character.isascii())

    def rank(number: int) -> tuple[bool, int]:
        return is_always_kept(number), counts[number]

    ranked = sorted(range(len(vocabulary)), key=rank, reverse=True)
    if is_always_kept(ranked[size]):
        raise ValueError(f"vocab_size={size} has no room for the special tokens and the characters of ASCII: raise it.")
    kept = sorted(ranked[:size])
    covered = 100 * sum(counts[number] for number in kept) / max(counts.total(), 1)
    logger.info("Kept the %d most frequent of %d tokens: %.2f %% of the texts.", size, len(vocabulary), covered)
    new = {vocabulary[number]: place for place, number in enumerate(kept)}
    state["model"]["vocab"] = new
    for added in state["added_tokens"]:
        added["id"] = new[added["content"]]
    for special in (state.get("post_processor") or {}).get("special_tokens", {}).values():
        special["ids"] = [new[token] for token in special["tokens"]]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        (Path(folder) / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
        smaller = AutoTokenizer.from_pretrained(folder)
    _keep_rows(model, torch.tensor(kept))
    model.config.pad_token_id = smaller.pad_token_id
    return smaller


@torch.no_grad()
def _keep_rows(model: PreTrainedModel, kept: torch.Tensor) -> None:
    """Keep these rows of the token embeddings, and of a masked-LM head that shares them."""
    rows = model.get_input_embeddings().weight[kept].clone()
    head = model.get_output_embeddings()
    bias = None
    if head is not None and head.bias is not None:
        bias = head.bias[kept].clone()
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.copy_(rows)
    if bias is not None:
        model.get_output_embeddings().bias.copy_(bias)


SMOOTHING = 1e-3  # a of a / (a + p), as in Arora et al. 2017
TOKENS_AT_ONCE = 1024
LINEAR = 1e6  # an epsilon so large that layer normalization divides all vectors by the same number, its root


@torch.no_grad()
def keep_tokens_alone(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> None:
    """Make an encoder static: without layers, so that a text's embedding is the mean of its tokens' vectors.

    The vector of a token is the encoder's embedding of the token alone, minus the mean of all, times ``a / (a + p)``: p
    is its share of the tokens of ``texts``, and a is 0.001 (Arora et al. 2017, section 3). The model keeps its
    architecture, such as BERT's, with no layers, and with a layer normalization that only subtracts the mean of a
    vector. Use it with mean pooling.
    """
    encoder = model.base_model
    table = model.get_input_embeddings()
    parent = next(module for module in encoder.modules() if any(child is table for child in module.children()))
    norms = [module for module in parent.children() if isinstance(module, nn.LayerNorm)]
    if len(norms) != 1 or norms[0].eps != getattr(model.config, "layer_norm_eps", None):
        raise ValueError(f"{type(model).__name__} has no layer normalization right after its table of tokens.")
    vectors = _embed_tokens(encoder.eval(), tokenizer, len(table.weight))
    counts = _count_tokens(tokenizer, texts)
    frequencies = torch.tensor([counts[number] for number in range(len(vectors))]) / max(counts.total(), 1)
    vectors = (vectors - vectors.mean(0)) * (SMOOTHING / (SMOOTHING + frequencies))[:, None]
    vectors[tokenizer.all_special_ids] = 0
    vectors /= vectors.norm(dim=1).mean()  # usual learning rates fit this scale; embeddings are normalized anyway
    del _layers_of(model)[:]
    model.config.num_hidden_layers = 0
    for module in parent.children():
        if isinstance(module, nn.Embedding):  # of positions and segments, which have no effect without layers
            module.weight.zero_().requires_grad_(False)
    table.weight.copy_(vectors).requires_grad_()
    norms[0].eps = LINEAR
    model.config.layer_norm_eps = LINEAR
    norms[0].weight.fill_(LINEAR**0.5).requires_grad_(False)
    norms[0].bias.zero_().requires_grad_(False)


def _embed_tokens(encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, count: int) -> torch.Tensor:
    """The mean of the states of each token and the special tokens around it, float32 ``(count, D)``."""
    prefix, suffix = special_tokens_around(tokenizer)
    prefix = torch.tensor(prefix, dtype=torch.long)
    suffix = torch.tensor(suffix, dtype=torch.long)
    embeddings = []
    for tokens in torch.arange(count).split(TOKENS_AT_ONCE):
        ids = torch.cat([prefix.expand(len(tokens), -1), tokens[:, None], suffix.expand(len(tokens), -1)], dim=1)
        ids = ids.to(encoder.device)
        states = run_encoder(encoder, ids, torch.ones_like(ids)).last_hidden_state
        embeddings.append(states.mean(1).float())
    return torch.cat(embeddings)


def _count_tokens(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    return counts
