"""Pieces of texts: what an encoder reads in one go, and how many are held at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from ....text.lone_surrogates import replace_lone_surrogates

GROUP_TOKENS = 2**20  # held at once; enough for batches of similar length


class Frame(NamedTuple):
    """What stands around the tokens of a piece."""

    tokenizer: PreTrainedTokenizerBase
    prefix: list[int]  # special tokens before it
    suffix: list[int]  # special tokens after it
    max_length: int  # in tokens, with all of this
    instruction: str = ""  # what stands before the text
    instruction_length: int = 0  # in tokens

    @property
    def around(self) -> int:
        """How many special tokens a piece has."""
        return len(self.prefix) + len(self.suffix)

    @property
    def room(self) -> int:
        """How many tokens of a text a piece has."""
        return self.max_length - self.around - self.instruction_length

    @property
    def prompt_length(self) -> int:
        """How many tokens at the beginning of a piece are not pooled."""
        return len(self.prefix) + self.instruction_length if self.instruction else 0

    def instructed(self, text: str) -> str:
        """The text behind the instruction, if there is one."""
        return self.instruction + text.strip() if self.instruction else text

    def framed(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Tokens with special tokens around them, int32 ``(n,)``."""
        return np.concatenate([self.prefix, ids, self.suffix]).astype(np.int32)


class Piece(NamedTuple):
    """Tokens of a text that are read together."""

    text: int  # the number of the text
    input_ids: np.ndarray  # int32 (n,), special tokens included
    start: int  # where it begins in the text, in characters
    end: int
    weight: int = 0  # in the average of its text: how many tokens it has; 0 for the only piece
    share: float = 1.0  # of its text that is read; of all its pieces
    parts: np.ndarray | None = None  # int64 (p, 4): tokens pooled apart, from and to, and their characters
    token_type_ids: np.ndarray | None = None  # int32 (n,): of a pair of texts, which one each token belongs to

    @property
    def is_only(self) -> bool:
        """Whether what is read of the text has one embedding."""
        return self.weight == 0

    @property
    def spans(self) -> np.ndarray:
        """Where that which gets an embedding stands in the text, int64 ``(p, 2)``."""
        return np.array([[self.start, self.end]]) if self.parts is None else self.parts[:, 2:]

    @property
    def weights(self) -> np.ndarray:
        """What each embedding counts in the average of the text: its tokens, int64 ``(p,)``."""
        return np.array([self.weight]) if self.parts is None else self.parts[:, 1] - self.parts[:, 0]


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, without special tokens."""
    valid = [replace_lone_surrogates(text) for text in texts]
    return tokenizer(valid, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]


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
