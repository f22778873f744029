"""Texts that an encoder does not know, such as those in another script: told by their words, logged once per call."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...text.lone_surrogates import replace_lone_surrogates
from .long_documents.cut_texts import log_at_end
from .long_documents.pieces import token_ids

logger = logging.getLogger(__name__)

TEXTS, CHARACTERS = 100, 300  # of a call the number of texts to look at, and of characters at the beginning of each
FEWEST_LETTERS = 20  # a name or two say nothing
# Of the letters of 14 English data sets at most 1.1 % are in unfamiliar words, of a single one of their texts 16 %,
# with English tokenizers of three kinds; of Chinese at least 33 %, of Russian, Greek, Arabic, Korean all. German or
# Finnish words come in pieces of several letters, and cannot be told from rare English words.
SHARE = 0.25
# Letters with the marks that belong to them; digits and emojis are in every language.
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0900-\u109f]){3,}")
_HAN = re.compile("[㐀-鿿]")
# Tokens per letter. English has 0.2. A Chinese character is one token in tokenizers made for it, two or three bytes in
# others.
_SPELLED, _SPELLED_HAN = 0.8, 1.3
_ENGLISH = ["water", "people", "because", "children", "different"]


def warn_of_unfamiliar_texts(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Log if much of a sample of texts is unknown to the tokenizer, or spelled letter by letter.

    Nothing is logged of texts without words, such as numbers, and for tokenizers of bytes or characters, which spell
    all languages.
    """
    sample = [texts[i][:CHARACTERS] for i in range(0, len(texts), -(-len(texts) // TEXTS) or 1)]
    words = [word for text in sample for word in _WORD.findall(replace_lone_surrogates(text))]
    if not words:
        return
    rows = token_ids(tokenizer, words)
    unfamiliar = [_unfamiliar_letters(word, ids, tokenizer) for word, ids in zip(words, rows, strict=True)]
    if any(unfamiliar) and _spells(tokenizer):
        return
    counts = np.array([sum(unfamiliar), sum(map(len, words))])
    log_at_end(_log, (), counts, words[int(np.argmax(unfamiliar))] if any(unfamiliar) else "")


def _spells(tokenizer: PreTrainedTokenizerBase) -> bool:
    rows = token_ids(tokenizer, _ENGLISH)
    return all(len(ids) >= _SPELLED * len(word) for word, ids in zip(_ENGLISH, rows, strict=True))


def _unfamiliar_letters(word: str, ids: list[int], tokenizer: PreTrainedTokenizerBase) -> float:
    han = len(_HAN.findall(word))
    if len(ids) >= _SPELLED * (len(word) - han) + _SPELLED_HAN * han:
        return len(word)
    return len(word) * ids.count(tokenizer.unk_token_id) / len(ids) if ids else len(word)


def _log(counts: np.ndarray, example: str) -> None:
    unfamiliar, letters = counts.tolist()
    if letters >= FEWEST_LETTERS and unfamiliar > SHARE * letters:
        logger.warning(
            "About %.0f %% of the words are unknown to the encoder's tokenizer, or spelled letter by letter, such as "
            "%r: the embeddings will say little. Take an encoder for the language of the texts, or a multilingual one.",
            *(100 * unfamiliar / letters, example[:40]),
        )
