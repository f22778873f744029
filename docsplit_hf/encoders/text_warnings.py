"""Log how much of texts is cut off, and whether their words are unknown to the encoder; once for many calls."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from transformers import PreTrainedTokenizerBase

from ..text.characters import replace_lone_surrogates
from ..text.tokenization import token_ids

logger = logging.getLogger(__name__)

# The counts of all calls and the first example, by the function that logs and its first arguments.
_sums: ContextVar[dict[tuple, tuple[np.ndarray, str]] | None] = ContextVar("_sums", default=None)

SAMPLED_TEXTS = 100  # of a call
SAMPLED_CHARACTERS = 300  # at the beginning of each sampled text
FEWEST_LETTERS = 20  # a name or two prove nothing
# Of the letters of 14 English data sets at most 1.1 % are in unfamiliar words, of a single one of their texts 16 %,
# with English tokenizers of three kinds; of Chinese at least 33 %, of Russian, Greek, Arabic, Korean all. German or
# Finnish words come in pieces of several letters, and cannot be told from rare English words.
UNFAMILIAR_FRACTION = 0.25
# Letters with the marks that belong to them; digits and emojis are in every language.
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0900-\u109f]){3,}")
_HAN = re.compile("[㐀-鿿]")
# Tokens per letter from which a word counts as spelled letter by letter. English words have 0.2.
_SPELLED = 0.8
# A Chinese character is one token in tokenizers made for it, two or three bytes in others.
_SPELLED_HAN = 1.3
_ENGLISH = ["water", "people", "because", "children", "different"]


@contextmanager
def cut_texts_summed_up() -> Iterator[None]:
    """Sum up the warnings about texts within the context, and log them once at its end; nested, the outer one logs."""
    if _sums.get() is not None:
        yield
        return
    sums: dict[tuple, tuple[np.ndarray, str]] = {}
    token = _sums.set(sums)
    try:
        yield
    finally:
        _sums.reset(token)
        for (log, *what), (counts, example) in sums.items():
            log(*what, counts, example)


@contextmanager
def unlogged() -> Iterator[None]:
    """Log no warnings within the context, about texts that are not the user's."""
    token = _sums.set({})
    try:
        yield
    finally:
        _sums.reset(token)


def log_at_end(log: Callable[..., None], what: tuple, counts: np.ndarray, example: str = "") -> None:
    """Call ``log(*what, counts, example)`` now, or at the end of ``cut_texts_summed_up`` with the sum of all counts."""
    sums = _sums.get()
    if sums is None:
        log(*what, counts, example)
    else:
        before, first = sums.get((log, *what), (0, ""))
        sums[log, *what] = (before + counts, first or example)


def read_fractions(lengths: Sequence[int], read: int) -> np.ndarray:
    """The part of each text that is read, if at most ``read`` of its length is, float64 ``(N,)``."""
    return np.minimum(read / np.maximum(lengths, 1), 1)


def warn_of_cut_texts(
    lengths: Sequence[int],
    read_fraction: np.ndarray,
    limit: int,
    unit: str = "tokens",
    advice: str = "",
    limit_unit: str | None = None,
    estimated: bool = False,
) -> None:
    """Log how many texts are longer than ``limit``, and how much of all is not read.

    ``read_fraction``: the part of each text that is read, ``(N,)``.
    """
    all_lengths = np.array(lengths, dtype=np.int64)
    unread = np.rint(all_lengths * (1 - read_fraction)).astype(np.int64)
    cut = np.count_nonzero(read_fraction < 1)
    counts = np.array([cut, len(read_fraction), unread.sum(), all_lengths.sum(), estimated])
    log_at_end(_log_cut, (limit, limit_unit or unit, unit, advice), counts)


def warn_of_unfamiliar_texts(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Log if much of a sample of texts is unknown to the tokenizer, or spelled letter by letter."""
    sample = [texts[i][:SAMPLED_CHARACTERS] for i in range(0, len(texts), -(-len(texts) // SAMPLED_TEXTS) or 1)]
    words = [word for text in sample for word in _WORD.findall(replace_lone_surrogates(text))]
    if not words:
        return
    rows = token_ids(tokenizer, words)
    unfamiliar = [_unfamiliar_letters(word, ids, tokenizer) for word, ids in zip(words, rows, strict=True)]
    if any(unfamiliar) and _spells(tokenizer):
        return
    counts = np.array([sum(unfamiliar), sum(map(len, words))])
    log_at_end(_log_unfamiliar, (), counts, words[int(np.argmax(unfamiliar))] if any(unfamiliar) else "")


def _spells(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer spells English words, too, as one of characters does."""
    rows = token_ids(tokenizer, _ENGLISH)
    return all(len(ids) >= _SPELLED * len(word) for word, ids in zip(_ENGLISH, rows, strict=True))


def _unfamiliar_letters(word: str, ids: list[int], tokenizer: PreTrainedTokenizerBase) -> float:
    """The number of a word's letters that are unknown or spelled."""
    han = len(_HAN.findall(word))
    if len(ids) >= _SPELLED * (len(word) - han) + _SPELLED_HAN * han:
        return len(word)
    return len(word) * ids.count(tokenizer.unk_token_id) / len(ids) if ids else len(word)


def _log_cut(limit: int, limit_unit: str, unit: str, advice: str, counts: np.ndarray, _: str) -> None:
    long, texts, unread, total, estimated = counts.tolist()
    if not long:
        return
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
    unfamiliar, letters = counts.tolist()
    if letters >= FEWEST_LETTERS and unfamiliar > UNFAMILIAR_FRACTION * letters:
        logger.warning(
            "About %.0f %% of the words are unknown to the encoder's tokenizer, or spelled letter by letter, such as "
            "%r: the embeddings will say little. Take an encoder for the language of the texts, or a multilingual one.",
            100 * unfamiliar / letters,
            example[:40],
        )
