"""Texts into tokens: special tokens, batches, and long texts in windows.

A window is cut only where the tokens of the parts are for certain those of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
from transformers import AddedToken, PreTrainedTokenizerBase

from .characters import replace_lone_surrogates

T = TypeVar("T")

PLAIN = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}  # options of a tokenizer
TOKENIZER_BATCH = 1000  # texts; enough for the tokenizer's threads, few enough for a progress bar that moves
TOKENIZER_CHARACTERS = 2**20  # of the texts of a batch; a tokenizer takes some 40 bytes for each
WINDOW = 2**16  # characters; a text that is no longer is never cut
CHARACTERS_PER_TOKEN = 8  # about twice what English has, so that one part is mostly enough

# Letters and digits to which no normal form and no grapheme joins the white space beside them. Scripts that are
# missing are read whole, or cut at another place.
_HAN = "一-鿿"
_LETTERS = f"0-9A-Za-zÀ-ɏΑ-ωЀ-ҁҊ-ӿא-תء-غف-يऄ-हぁ-ゖァ-ヺ{_HAN}가-힣"
_MARKS, _CJK_MARKS = ".,;:!?", "，。！？；："


class _Cut(NamedTuple):
    """A kind of place between two characters, and the white space that begins the part after the cut."""

    left: str
    after: str
    right: str

    @property
    def pattern(self) -> str:
        return f"(?<=[{self.left}])(?={self.after}[{self.right}])"


_CUTS = (
    *(_Cut(left, space, _LETTERS) for left in (_LETTERS, _MARKS + _CJK_MARKS) for space in " \n"),
    _Cut(_CJK_MARKS, "", _HAN),
    _Cut(_HAN, "", _HAN),
)
_EXAMPLES = {_LETTERS: "a7Zéßλжאعकア字글", _HAN: "字文中"}  # to try a cut with; of marks, all


def check_texts(texts: Sequence[str], name: str = "Text") -> None:
    """Refuse what is no sequence of strings: one string, a generator, a mapping."""
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    # A generator would be empty afterwards, and of a mapping the keys would be read.
    if isinstance(texts, Mapping) or not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")):
        raise TypeError(f"Expected a list of texts, got {type(texts).__name__}: pass a list of strings.")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} {i} is {text!r}, not a string.")


def special_tokens_around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids that the tokenizer adds before and after a text, such as ``([101], [102])``: found by trying."""
    text = "the"
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    full = tokenizer(text, add_special_tokens=True)["input_ids"]
    for start in range(len(full) - len(plain) + 1):
        if full[start : start + len(plain)] == plain:
            return full[:start], full[start + len(plain) :]
    ids = f"{plain} without and {full} with special tokens"
    raise ValueError(f"{type(tokenizer).__name__} makes {ids} of {text!r}, which are not around it: use another one.")


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, without special tokens."""
    return tokenizer([replace_lone_surrogates(text) for text in texts], **PLAIN)["input_ids"]


def tokens_per_sentence(sentences: Sequence[str], ends: np.ndarray) -> list[int]:
    """The number of tokens of each sentence that has any; ``ends``, ``(n,)``: where each token of the text ends."""
    if not len(ends):
        return []
    # The last character, not the first: byte-level and SentencePiece tokens may start with the white space that ends
    # the sentence before. The running maximum keeps tokens without characters of their own in their place.
    last_characters = np.maximum.accumulate(np.maximum(ends - 1, 0)).astype(np.int64)
    sentence_ends = np.cumsum([len(sentence) for sentence in sentences])
    lengths = np.bincount(np.searchsorted(sentence_ends, last_characters, side="right"))
    return lengths[lengths > 0].tolist()


def tokenizer_batches(texts: Iterable[T], characters_of: Callable[[T], int] = len) -> Iterator[list[T]]:
    """Texts in order, in batches of at most 1,000 and a million characters; a longer one has a batch of its own."""
    batch: list[T] = []
    characters = 0
    for text in texts:
        characters += characters_of(text)
        if batch and (len(batch) == TOKENIZER_BATCH or characters > TOKENIZER_CHARACTERS):
            yield batch
            batch, characters = [], characters_of(text)
        batch.append(text)
    if batch:
        yield batch


def certain_cuts(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str] | None:
    """Where texts may be cut so that the tokens of the parts are those of the whole, found by trying; None: nowhere."""
    if not tokenizer.is_fast:
        return None
    added = list(tokenizer.added_tokens_decoder.values())
    patterns = [cut.pattern for cut in _CUTS if _is_certain(cut, tokenizer, added)]
    return re.compile("|".join(patterns)) if patterns else None


def windows(text: str, cuts: re.Pattern[str] | None, size: int = WINDOW) -> Iterator[str]:
    """A text in parts that join to it, each ending at the first of the ``cuts`` after ``size`` characters."""
    start = 0
    while cuts is not None and len(text) - start > size and (cut := cuts.search(text, start + size)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:] if start else text


def count_tokens(text: str, tokenizer: PreTrainedTokenizerBase, cuts: re.Pattern[str] | None) -> int:
    """The number of a text's tokens, without special tokens, in the memory of a window."""
    return sum(len(tokenizer(window, **PLAIN)["input_ids"]) for window in windows(text, cuts))


def beginning(
    text: str, tokens: int, tokenizer: PreTrainedTokenizerBase, cuts: re.Pattern[str] | None, longest: int = WINDOW
) -> str:
    """The beginning of a text with its first ``tokens``; all of it up to ``longest`` characters, or without cuts."""
    if len(text) <= longest:
        return text
    end = found = 0
    for window in windows(text, cuts, CHARACTERS_PER_TOKEN * max(tokens, 1)):
        end += len(window)
        if end == len(text):
            break
        found += count_tokens(window, tokenizer, None)
        if found > tokens:
            break
    return text[:end]


def ending(text: str, tokens: int, tokenizer: PreTrainedTokenizerBase, cuts: re.Pattern[str] | None) -> str:
    """The end of a text that holds its last ``tokens``, tokenized as in the whole text."""
    size = CHARACTERS_PER_TOKEN * max(tokens, 1)
    while cuts is not None and len(text) > size:
        cut = cuts.search(text, len(text) - size)
        if cut and count_tokens(text[cut.start() :], tokenizer, cuts) >= tokens:
            return text[cut.start() :]
        size *= 2
    return text


def input_beginnings(
    inputs: Iterable[tuple[str, str | None]], max_length: int, tokenizer: PreTrainedTokenizerBase
) -> Iterator[tuple[str, str | None]]:
    """The beginnings of texts, or of pairs, that a tokenizer needs to cut them to ``max_length`` tokens on the right.

    By itself it tokenizes all of a text before it cuts, and of a long pair keeps each part of the one with each part of
    the other.
    """
    longest = min(2 * CHARACTERS_PER_TOKEN * max_length, WINDOW)  # of a pair
    find_cuts = cache(lambda: certain_cuts(tokenizer))
    for text, pair in inputs:
        both = [text] if pair is None else [text, pair]
        is_long = [len(one) > (WINDOW if pair is None else longest) for one in both]
        if not any(is_long) or tokenizer.truncation_side != "right":
            yield text, pair
        elif pair is None:
            yield beginning(text, max_length, tokenizer, find_cuts()), None
        else:
            # The one with more tokens is cut first, and of two the second: so it has to stay that one.
            tokens = [count_tokens(one, tokenizer, find_cuts()) for one in both] if all(is_long) else is_long
            short, long = (1, 0) if tokens[0] > tokens[1] else (0, 1)
            both[short] = beginning(both[short], max_length, tokenizer, find_cuts(), longest)
            more = max(max_length, count_tokens(both[short], tokenizer, None))
            both[long] = beginning(both[long], more, tokenizer, find_cuts(), longest)
            yield both[0], both[1]


def _is_certain(cut: _Cut, tokenizer: PreTrainedTokenizerBase, added: list[AddedToken]) -> bool:
    if any(_reaches_across(token, cut) for token in added):
        return False
    # One of each with another word beside it, for tokenizers that make one word of two.
    some_left, some_right = (_EXAMPLES.get(side, side) for side in (cut.left, cut.right))
    lefts = [*some_left, f"a {some_left[0]}"]
    rights = [cut.after + right for right in (*some_right, f"{some_right[0]} a")]
    pairs = list(product(lefts, rights))
    ids = dict(zip(lefts + rights, tokenizer(lefts + rights, **PLAIN)["input_ids"], strict=True))
    together = tokenizer([left + right for left, right in pairs], **PLAIN)
    for (left, right), found, encoding in zip(pairs, together["input_ids"], together.encodings, strict=True):
        before, after = ids[left], ids[right]
        if found != before + after:
            return False
        words = encoding.word_ids
        if before and after and words[len(before) - 1] == words[len(before)]:
            return False
    return True


def _reaches_across(token: AddedToken, cut: _Cut) -> bool:
    content = str(token.content)
    takes_space = token.rstrip and re.search(cut.pattern, f"{content}{cut.after}a字")
    return bool(re.search(cut.pattern, content) or takes_space or (token.single_word and not cut.after))
