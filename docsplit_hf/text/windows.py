"""Long texts in windows, cut only where the tokens of the parts are for certain those of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transformers import AddedToken, PreTrainedTokenizerBase

WINDOW = 2**16  # characters; a text that is no longer is never cut
CHARACTERS_PER_TOKEN = 8  # about twice what English has, so that one part is mostly enough

# Letters and digits to which no normal form and no grapheme joins the white space beside them. Scripts that are
# missing are read whole, or cut at another place.
_HAN = "一-鿿"
_LETTERS = f"0-9A-Za-zÀ-ɏΑ-ωЀ-ҁҊ-ӿא-תء-غف-يऄ-हぁ-ゖァ-ヺ{_HAN}가-힣"
_MARKS, _CJK_MARKS = ".,;:!?", "，。！？；："


class _Cut(NamedTuple):
    """A kind of place between two characters, and characters to try it with."""

    left: str
    after: str  # the white space that begins the part after the cut
    right: str
    examples: tuple[str, str]

    @property
    def pattern(self) -> str:
        return f"(?<=[{self.left}])(?={self.after}[{self.right}])"


_LETTER_EXAMPLES = "a7Zéßλжאعकア字글"
_CUTS = (
    _Cut(_LETTERS, " ", _LETTERS, (_LETTER_EXAMPLES, _LETTER_EXAMPLES)),
    _Cut(_LETTERS, "\n", _LETTERS, (_LETTER_EXAMPLES, _LETTER_EXAMPLES)),
    _Cut(_MARKS + _CJK_MARKS, " ", _LETTERS, (_MARKS + _CJK_MARKS, _LETTER_EXAMPLES)),
    _Cut(_MARKS + _CJK_MARKS, "\n", _LETTERS, (_MARKS + _CJK_MARKS, _LETTER_EXAMPLES)),
    _Cut(_CJK_MARKS, "", _HAN, (_CJK_MARKS, "字文中")),
    _Cut(_HAN, "", _HAN, ("字文中", "字文中")),
)


def certain_cuts(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str] | None:
    """Where texts may be cut such that the tokens of the parts, one after the other, are those of the whole.

    A kind of place, such as before the space between two words, is certain if the tokenizer begins a new word there
    (what its model merges or weighs against each other lies within a word), gives the parts the tokens that they have
    in the whole, and has no added token across it. That is found by trying. None: a tokenizer that sees the whole text
    as one word, as some of SentencePiece do, has no such place, nor has one that is not fast.
    """
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
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    return sum(len(tokenizer(window, **options)["input_ids"]) for window in windows(text, cuts))


def beginning(
    text: str,
    tokens: int,
    tokenizer: PreTrainedTokenizerBase,
    cuts: re.Pattern[str] | None,
    longest: int = WINDOW,
) -> str:
    """As much of a text as holds its first ``tokens`` and more, so that the rest need not be tokenized.

    Its tokens are those that it has in the whole text. The text is whole if it has at most ``longest`` characters, or
    too few tokens or places to cut.
    """
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
    """As much of the end of a text as holds its last ``tokens``, which are those that it has in the whole text."""
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
    """As much of texts (and None), or of pairs of texts, as decides what is left of them when they are cut.

    The tokenizer makes the same tokens of them when it cuts to ``max_length``, special tokens included, the longer one
    of a pair first. By itself it tokenizes all of a text before it cuts it, and of a long pair it keeps each part of
    the one with each part of the other. Texts stay whole where it cuts on the left, or has no place to cut.
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
    lefts = [*cut.examples[0], f"a {cut.examples[0][0]}"]
    rights = [cut.after + right for right in (*cut.examples[1], f"{cut.examples[1][0]} a")]
    pairs = list(product(lefts, rights))
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    ids = dict(zip(lefts + rights, tokenizer(lefts + rights, **options)["input_ids"], strict=True))
    together = tokenizer([left + right for left, right in pairs], **options)
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
