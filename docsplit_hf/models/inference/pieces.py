"""What an encoder reads of texts: the beginning of each, or pieces that together are the whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...text.lone_surrogates import replace_lone_surrogates
from ...text.windows import WINDOW, beginning, certain_cuts, windows
from .batching import tokenizer_batches
from .cut_texts import warn_of_cut_texts

GROUP_TOKENS = 2**20  # held at once; enough for batches of similar length


class Frame(NamedTuple):
    """What stands around the tokens of a piece."""

    tokenizer: PreTrainedTokenizerBase
    prefix: list[int]  # special tokens before it
    suffix: list[int]  # special tokens after it
    instruction: str  # what stands before the text; blank for nothing
    instruction_length: int  # in tokens
    max_length: int  # in tokens, with all that

    @property
    def room(self) -> int:
        """How many tokens of a text a piece has."""
        return self.max_length - len(self.prefix) - len(self.suffix) - self.instruction_length

    @property
    def prompt_length(self) -> int:
        """How many tokens at the beginning of a piece are not pooled."""
        return len(self.prefix) + self.instruction_length if self.instruction else 0


class Piece(NamedTuple):
    """Tokens of a text that are embedded together."""

    text: int  # the number of the text
    input_ids: np.ndarray  # int32 (n,), special tokens included
    weight: int = 0  # in the average of the text; 0 for its only piece
    end: int = 0  # where it ends in the text, in characters, about


class _Window(NamedTuple):
    text: int
    content: str
    end: int
    is_first: bool
    is_last: bool


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, without special tokens."""
    valid = [replace_lone_surrogates(text) for text in texts]
    return tokenizer(valid, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]


def first_pieces(texts: Sequence[str], frame: Frame) -> Iterator[Piece]:
    """The beginning of each text, and a warning at the end of how much was cut. Of a long text no more is tokenized."""
    cuts = certain_cuts(frame.tokenizer) if any(len(text) > WINDOW for text in texts) else None
    tokens = frame.instruction_length + frame.room
    starts = (beginning(_instructed(text, frame), tokens, frame.tokenizer, cuts) for text in texts)
    lengths: list[int] = []
    estimated = False
    for batch in tokenizer_batches(starts):
        for start, row in zip(batch, token_ids(frame.tokenizer, batch), strict=True):
            number, text = len(lengths), texts[len(lengths)]
            characters = len(start) if len(text) <= WINDOW else len(_instructed(text, frame))
            estimated = estimated or characters > len(start)
            lengths.append(round(len(row) * characters / max(len(start), 1)) - frame.instruction_length)
            yield Piece(number, _framed(row[:tokens], frame), end=len(text))
    advice = "long_documents='average' reads them whole."
    warn_of_cut_texts(lengths, frame.room, frame.max_length, advice=advice, estimated=estimated)


def all_pieces(texts: Sequence[str], frame: Frame) -> Iterator[Piece]:
    """All of each text, in pieces that fit, one at least. Of a long text one window is tokenized at a time."""
    cuts = certain_cuts(frame.tokenizer) if any(len(text) > WINDOW for text in texts) else None
    stream = (window for i, text in enumerate(texts) for window in _windows(i, _instructed(text, frame), cuts))
    instruction: list[int] = []
    ids: list[int] = []
    is_only = True
    for batch in tokenizer_batches(stream, lambda window: len(window.content)):
        for window, row in zip(batch, token_ids(frame.tokenizer, [w.content for w in batch]), strict=True):
            if window.is_first:
                instruction, ids, is_only = row[: frame.instruction_length], row[frame.instruction_length :], True
            else:
                ids += row
            # Where the text goes on, its last piece waits: it may be the only one, or get more tokens.
            end = max(len(ids), 1) if window.is_last else max(len(ids) - 1, 0) // frame.room * frame.room
            for start in range(0, end, frame.room):
                piece = ids[start : start + frame.room]
                is_only = is_only and window.is_last and end <= frame.room
                weight = 0 if is_only else len(frame.prefix) + len(piece) + len(frame.suffix)
                left = len(ids) - start - len(piece)
                read = window.end - len(window.content) * left // max(len(ids), 1)
                yield Piece(window.text, _framed(instruction + piece, frame), weight, read)
            ids = ids[end:]


def grouped(pieces: Iterable[Piece], texts: Sequence[str]) -> Iterator[tuple[list[Piece], int]]:
    """Pieces in groups of a million tokens, so that not all of a corpus are held at once.

    With each group comes how many pieces all texts have: estimated by characters, exact with the last group.
    """
    characters = [0, *accumulate(len(text) for text in texts)]
    group: list[Piece] = []
    known = tokens = 0
    for piece in pieces:
        group.append(piece)
        known, tokens = known + 1, tokens + len(piece.input_ids)
        if tokens >= GROUP_TOKENS:
            read = characters[piece.text] + piece.end
            yield group, max(known, round(known * characters[-1] / max(read, 1)))
            group, tokens = [], 0
    if group:
        yield group, known


def _instructed(text: str, frame: Frame) -> str:
    return frame.instruction + text.strip() if frame.instruction else text


def _framed(ids: list[int], frame: Frame) -> np.ndarray:
    return np.array(frame.prefix + ids + frame.suffix, dtype=np.int32)


def _windows(number: int, text: str, cuts: re.Pattern[str] | None) -> Iterator[_Window]:
    end = 0
    for content in windows(text, cuts):
        start, end = end, end + len(content)
        yield _Window(number, content, end, start == 0, end == len(text))
