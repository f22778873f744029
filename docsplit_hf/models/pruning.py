"""A smaller start from a large encoder: some of its layers or none, and the part of its vocabulary that texts need."""

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
    found = _layers_of(model)
    if not layers or list(layers) != sorted({layer for layer in layers if 0 <= layer < len(found)}):
        raise ValueError(f"The layers to keep are some of 0 to {len(found) - 1} in rising order, got {list(layers)}.")
    kept = [found[layer] for layer in layers]
    del found[len(kept) :]
    for place, layer in enumerate(kept):
        found[place] = layer
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
    """Keep the ``size`` tokens of a WordPiece vocabulary that texts have most, and give a tokenizer of them.

    Special tokens and the characters of ASCII are always among them. Other words are read in more pieces.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    if state["model"]["type"] != "WordPiece":
        raise ValueError(f"A vocabulary of {state['model']['type']} cannot be cut here, only one of WordPiece.")
    vocabulary = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    if size >= len(vocabulary):
        raise ValueError(f"The vocabulary has {len(vocabulary)} tokens: keep fewer, got vocab_size={size}.")
    counts = _count_tokens(tokenizer, texts)
    always = set(tokenizer.all_special_tokens) | {added["content"] for added in state["added_tokens"]}

    def rank(number: int) -> tuple[bool, int]:
        token = vocabulary[number]
        character = token.removeprefix("##")
        return token in always or (len(character) == 1 and character.isascii()), counts[number]

    ranked = sorted(range(len(vocabulary)), key=rank, reverse=True)
    if rank(ranked[size])[0]:
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
    """Keep these rows of the embeddings of tokens, and of a masked-LM head that shares them."""
    rows, head = model.get_input_embeddings().weight[kept].clone(), model.get_output_embeddings()
    bias = None if head is None or head.bias is None else head.bias[kept].clone()
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.copy_(rows)
    if bias is not None:
        model.get_output_embeddings().bias.copy_(bias)


SMOOTHING = 1e-3  # a of a / (a + p), as in Arora et al. 2017
TOKENS_AT_ONCE = 1024
LINEAR = 1e6  # a variance beside which that of any vector is nothing: layer normalization divides by its root


@torch.no_grad()
def keep_tokens_alone(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> None:
    """Make an encoder static: without layers, so that a text is the mean of its tokens' vectors.

    The vector of a token is the encoder's embedding of the token alone, less the mean of all, times ``a / (a + p)``: p
    is its share of the tokens of ``texts``, and a is 0.001 (Arora et al. 2017, section 3). It stays a model of its
    architecture, such as BERT's, which has no layers and whose layer normalization subtracts the mean of a vector and
    divides by 1. It is to be read with mean pooling.
    """
    encoder, table = model.base_model, model.get_input_embeddings()
    parent = next(module for module in encoder.modules() if any(child is table for child in module.children()))
    norms = [module for module in parent.children() if isinstance(module, nn.LayerNorm)]
    if len(norms) != 1 or norms[0].eps != getattr(model.config, "layer_norm_eps", None):
        raise ValueError(f"{type(model).__name__} has no layer normalization right after its table of tokens.")
    vectors = _embed_tokens(encoder.eval(), tokenizer, len(table.weight))
    counts = _count_tokens(tokenizer, texts)
    shares = torch.tensor([counts[number] for number in range(len(vectors))]) / max(counts.total(), 1)
    vectors = (vectors - vectors.mean(0)) * (SMOOTHING / (SMOOTHING + shares))[:, None]
    vectors[tokenizer.all_special_ids] = 0
    vectors /= vectors.norm(dim=1).mean()  # embeddings are of norm 1 anyway; usual learning rates fit this scale
    del _layers_of(model)[:]
    model.config.num_hidden_layers = 0
    for module in parent.children():
        if isinstance(module, nn.Embedding):  # of places and segments, which say nothing any more
            module.weight.zero_().requires_grad_(False)
    table.weight.copy_(vectors).requires_grad_()
    norms[0].eps = model.config.layer_norm_eps = LINEAR
    norms[0].weight.fill_(LINEAR**0.5).requires_grad_(False)
    norms[0].bias.zero_().requires_grad_(False)


def _embed_tokens(encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, count: int) -> torch.Tensor:
    """The mean of the states of each token and the special tokens around it, float32 ``(count, D)``."""
    before, after = (torch.tensor(around, dtype=torch.long) for around in special_tokens_around(tokenizer))
    found = []
    for tokens in torch.arange(count).split(TOKENS_AT_ONCE):
        ids = torch.cat([before.expand(len(tokens), -1), tokens[:, None], after.expand(len(tokens), -1)], dim=1)
        ids = ids.to(encoder.device)
        found.append(run_encoder(encoder, ids, torch.ones_like(ids)).last_hidden_state.mean(1).float())
    return torch.cat(found)


def _count_tokens(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    return counts
