"""The special tokens that a tokenizer puts around a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def special_tokens_around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids that the tokenizer adds before and after a single text, such as ``([101], [102])`` of BERT.

    Found by tokenizing a short text with and without special tokens, which works for every tokenizer.
    """
    text = "the"
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    full = tokenizer(text, add_special_tokens=True)["input_ids"]
    for start in range(len(full) - len(plain) + 1):
        if full[start : start + len(plain)] == plain:
            return full[:start], full[start + len(plain) :]
    raise ValueError(
        f"{type(tokenizer).__name__} turns {text!r} into {plain} without and into {full} with special tokens: the "
        "first is not a part of the second, so the special tokens around a text cannot be told. Use a tokenizer that "
        "adds its special tokens before and after the text."
    )
