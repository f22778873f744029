"""Log how much of the texts is cut off, and whether the tokenizer lacks their words; once for many calls."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import numpy as np

from .characters import replace_lone_surrogates
from .tokenization import token_arrays

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

# Within sum_up_warnings: the sum of all counts and the first example, by the logging function and its first arguments.
_sums: ContextVar[dict[tuple, tuple[np.ndarray, str]] | None] = ContextVar("_sums", default=None)

SAMPLED_TEXTS = 100  # the most texts of a call that are examined
SAMPLED_CHARACTERS = 300  # at the beginning of each sampled text
FEWEST_LETTERS = 20  # fewer, such as a name or two, show nothing
# The fraction of letters in unfamiliar words from which a warning is logged. Measured with English tokenizers of three
# kinds: at most 1.1 % in each of 14 English data sets, and 16 % in any one of their texts; at least 33 % in Chinese;
# 100 % in Russian, Greek, Arabic and Korean. German and Finnish words do not count: they are split into parts of
# several letters, as rare English words are.
UNFAMILIAR_FRACTION = 0.25
# Letters with their combining marks; digits and emojis tell nothing about the language.
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0900-\u109f]){3,}")
_CHINESE_CHARACTER = re.compile("[㐀-鿿]")
# Tokens per letter from which a word counts as spelled letter by letter. English words have 0.2.
_SPELLED = 0.8
# The same for Chinese characters: one token each in tokenizers made for them, two or three in others.
_SPELLED_CHINESE = 1.3
_ENGLISH_WORDS = ["water", "people", "because", "children", "different"]


@contextmanager
def sum_up_warnings() -> Iterator[None]:
    """Sum up the warnings about texts within the context, and log them once, at the end of the outermost context."""
    if _sums.get() is not None:
        yield
        return
    sums: dict[tuple, tuple[np.ndarray, str]] = {}
    token = _sums.set(sums)
    try:
        yield
    finally:
        _sums.reset(token)
        for (log, *arguments), (counts, example) in sums.items():
            if counts[0]:
                log(*arguments, counts, example)


@contextmanager
def unlogged() -> Iterator[None]:
    """Drop the warnings about texts within the context; for texts that the user did not give."""
    token = _sums.set({})
    try:
        yield
    finally:
        _sums.reset(token)


def log_at_end(log: Callable[..., None], arguments: tuple, counts: np.ndarray, example: str = "") -> None:
    """Call ``log(*arguments, counts, example)``; within ``sum_up_warnings`` once at the end, with summed counts.

    The first of the counts is of what was found: if it is 0, nothing is logged.
    """
    sums = _sums.get()
    if sums is None:
        if counts[0]:
            log(*arguments, counts, example)
    else:
        before, first = sums.get((log, *arguments), (0, ""))
        sums[log, *arguments] = (before + counts, first or example)


def read_fractions(lengths: Sequence[int], limit: int) -> np.ndarray:
    """The fraction of each text that is read if longer texts are cut to ``limit``: float64 ``(N,)``."""
    return np.minimum(limit / np.maximum(lengths, 1), 1)


def warn_of_cut_texts(
    lengths: Sequence[int],
    read_fraction: np.ndarray,
    limit: int,
    unit: str = "tokens",
    advice: str = "",
    limit_unit: str | None = None,
    estimated: bool = False,
) -> None:
    """Log how many texts are longer than the limit, and how much of all texts is not read.

    Args:
        lengths: The length of each text, in ``unit``.
        read_fraction: The fraction of each text that is read, ``(N,)``.
        limit: The longest text that is read to its end, in ``limit_unit``.
        unit: The unit of the lengths.
        advice: A sentence at the end of the warning.
        limit_unit: The unit of the limit. None: ``unit``.
        estimated: Whether lengths are estimates.
    """
    all_lengths = np.array(lengths, dtype=np.int64)
    unread = np.rint(all_lengths * (1 - read_fraction)).astype(np.int64)
    cut = np.count_nonzero(read_fraction < 1)
    counts = np.array([cut, len(read_fraction), unread.sum(), all_lengths.sum(), estimated])
    log_at_end(_log_cut, (limit, limit_unit or unit, unit, advice), counts)


def warn_of_unfamiliar_texts(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Log if many words in a sample of the texts are unknown to the tokenizer, or spelled letter by letter."""
    sample = [texts[i][:SAMPLED_CHARACTERS] for i in range(0, len(texts), -(-len(texts) // SAMPLED_TEXTS) or 1)]
    words = [word for text in sample for word in _WORD.findall(replace_lone_surrogates(text))]
    if not words:
        return
    rows = token_arrays(tokenizer, words)
    unfamiliar = [_unfamiliar_letters(word, ids, tokenizer) for word, ids in zip(words, rows, strict=True)]
    if any(unfamiliar) and _spells_english(tokenizer):
        return
    counts = np.array([sum(unfamiliar), sum(map(len, words))])
    log_at_end(_log_unfamiliar, (), counts, words[int(np.argmax(unfamiliar))] if any(unfamiliar) else "")


def _spells_english(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer spells even English words letter by letter, as tokenizers of characters do."""
    rows = token_arrays(tokenizer, _ENGLISH_WORDS)
    return all(len(ids) >= _SPELLED * len(word) for word, ids in zip(_ENGLISH_WORDS, rows, strict=True))


def _unfamiliar_letters(word: str, ids: np.ndarray, tokenizer: PreTrainedTokenizerBase) -> float:
    """The number of a word's letters that are unknown, or all of them if it is spelled letter by letter."""
    chinese = len(_CHINESE_CHARACTER.findall(word))
    if len(ids) >= _SPELLED * (len(word) - chinese) + _SPELLED_CHINESE * chinese:
        return len(word)
    return len(word) * np.count_nonzero(ids == tokenizer.unk_token_id) / len(ids) if len(ids) else len(word)


def _log_cut(limit: int, limit_unit: str, unit: str, advice: str, counts: np.ndarray, _: str) -> None:
    """Log cut texts; ``counts``: long texts, all texts, unread units, all units, and how many calls estimated them."""
    long, texts, unread, total, estimated = counts.tolist()
    logger.warning(
        "%d of %d texts are longer than %d %s: %s%.1f %% of all %s were cut off.%s",
        long,
        texts,
        limit,
        limit_unit,
        "about " if estimated else "",
        100 * unread / max(total, 1),
        unit,
        f" {advice}".rstrip(),
    )


def _log_unfamiliar(counts: np.ndarray, example: str) -> None:
    """Log unfamiliar words; ``counts``: unfamiliar letters, and all letters."""
    unfamiliar, letters = counts.tolist()
    if letters >= FEWEST_LETTERS and unfamiliar > UNFAMILIAR_FRACTION * letters:
        logger.warning(
            "About %.0f %% of the words are unknown to the encoder's tokenizer, or spelled letter by letter, such as "
            "%r: the embeddings will be poor. Use an encoder for the language of the texts, or a multilingual one.",
            100 * unfamiliar / letters,
            example[:40],
        )
