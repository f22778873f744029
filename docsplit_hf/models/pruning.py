"""A smaller start from a large encoder: some of its layers, and the part of its vocabulary that texts need."""

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

logger = logging.getLogger(__name__)


def keep_layers(model: PreTrainedModel, layers: Sequence[int]) -> None:
    """Keep only these layers of an encoder, counted from 0, such as ``[0, 2, 5]`` of six."""
    count = model.config.num_hidden_layers
    lists = [module for module in model.base_model.modules() if isinstance(module, nn.ModuleList)]
    found = [module for module in lists if len(module) == count]
    if len(found) != 1:
        raise ValueError(f"{type(model).__name__} has no single list of {count} layers: it cannot be cut here.")
    if not layers or list(layers) != sorted({layer for layer in layers if 0 <= layer < count}):
        raise ValueError(f"The layers to keep are some of 0 to {count - 1} in rising order, got {list(layers)}.")
    kept = [found[0][layer] for layer in layers]
    del found[0][len(kept) :]
    for place, layer in enumerate(kept):
        found[0][place] = layer
    model.config.num_hidden_layers = len(kept)


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
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
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
