"""A small BERT with random weights and its own vocabulary, for documents unlike those of pretrained encoders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from transformers import AutoTokenizer, BertConfig, BertTokenizer, PreTrainedTokenizerBase

from ..content_hash import cache_folder, short_digest
from ..storage.inside_folder import write_at_once

# Arguments for training a small BERT from random weights: minutes on two CPU cores.
SMALL_BERT_RECIPE = {
    "pooling": "mean",  # with "cls", an untrained state, the loss does not fall for an epoch
    "max_length": 128,
    "learning_rate": 2e-3,
    "num_train_epochs": 2,
    "warmup_steps": 30,
}
HEAD_SIZE = 64  # dimensions of an attention head, as in BERT-base


def train_small_bert_tokenizer(texts: Iterable[str], vocab_size: int = 8192) -> PreTrainedTokenizerBase:
    """Train a ``BertTokenizer`` on texts: WordPiece, with lower-cased text."""
    return BertTokenizer().train_new_from_iterator(texts, vocab_size=vocab_size, show_progress=False)


def cached_small_bert_tokenizer(texts: Sequence[str], vocab_size: int = 8192) -> PreTrainedTokenizerBase:
    """Train a tokenizer as ``train_small_bert_tokenizer`` does, or load it if it was trained on the same texts before.

    Training breaks ties at random: without the cache, processes would have slightly different vocabularies.
    """
    content = f"{vocab_size}" + "".join(f"{len(text)} {text}" for text in texts)
    folder = cache_folder(f"tokenizer-{short_digest(content.encode(), size=16).hex()}")
    if not folder.is_dir():
        write_at_once(folder, train_small_bert_tokenizer(texts, vocab_size).save_pretrained)
    return AutoTokenizer.from_pretrained(folder)


def small_bert_config(
    tokenizer: PreTrainedTokenizerBase, hidden_size: int = 128, num_hidden_layers: int = 2
) -> BertConfig:
    """The configuration of a small BERT; with the default sizes, two CPU cores train it in minutes.

    Args:
        tokenizer: Its tokenizer.
        hidden_size: Number of dimensions of a state, a multiple of 64: a head has 64 dimensions, as in BERT-base.
        num_hidden_layers: Number of layers.
    """
    if hidden_size < HEAD_SIZE or hidden_size % HEAD_SIZE:
        raise ValueError(f"hidden_size must be a multiple of 64, the size of BERT's heads, got {hidden_size}.")
    return BertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        intermediate_size=4 * hidden_size,
        num_attention_heads=hidden_size // HEAD_SIZE,
        max_position_embeddings=512,
        # No dropout: each document is seen only a few times, and random numbers take a fifth of a step on a CPU.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
