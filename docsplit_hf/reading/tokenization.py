"""Tokenize texts: special tokens, batches, and long texts in windows.

A text is cut into windows only at places where the tokens of the parts are certainly those of the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain, product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from .characters import replace_lone_surrogates

if TYPE_CHECKING:
    from transformers import AddedToken, PreTrainedTokenizerBase, PreTrainedTokenizerFast

T = TypeVar("T")

PLAIN = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}  # options of a tokenizer
TOKENIZER_BATCH = 1000  # texts; enough for the tokenizer's threads, few enough for a smooth progress bar
TOKENIZER_CHARACTERS = 2**20  # in a batch; a tokenizer takes some 40 bytes for each
WINDOW = 2**16  # characters; shorter texts are not cut
CHARACTERS_PER_TOKEN = 8  # about twice the English average, so that one part is usually enough

# Letters and digits that neither Unicode normalization nor a grapheme joins with white space beside them. Texts in
# other scripts are read whole, or cut at another place.
_HAN = "一-鿿"
_LETTERS = f"0-9A-Za-zÀ-ɏΑ-ωЀ-ҁҊ-ӿא-תء-غف-يऄ-हぁ-ゖァ-ヺ{_HAN}가-힣"
_MARKS = ".,;:!?"
_CJK_MARKS = "，。！？；："


class _Cut(NamedTuple):
    """Kind of place between two characters, and the white space at the beginning of the part after the cut."""

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
_EXAMPLES = {_LETTERS: "a7Zéßλжאعकア字글", _HAN: "字文中"}  # characters to try a cut with; all marks are tried


def check_texts(texts: Sequence[str], name: str = "Text") -> None:
    """Refuse anything but a sequence of strings, such as one string, a generator or a mapping."""
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    # A generator would be empty afterwards, and a mapping would give its keys.
    if isinstance(texts, Mapping) or not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")):
        raise TypeError(f"Expected a list of texts, got {type(texts).__name__}: pass a list of strings.")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} {i} is {text!r}, not a string.")


def special_tokens_around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Token ids that the tokenizer adds before and after a text, such as ``([101], [102])``, found by a trial."""
    text = "the"
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    full = tokenizer(text, add_special_tokens=True)["input_ids"]
    for start in range(len(full) - len(plain) + 1):
        if full[start : start + len(plain)] == plain:
            return full[:start], full[start + len(plain) :]
    raise ValueError(
        f"{type(tokenizer).__name__} makes {plain} without and {full} with special tokens of {text!r}, which are not "
        "around it: use another one."
    )


def token_arrays(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[np.ndarray]:
    """The tokens of each text, without special tokens: int32 ``(n,)`` each, parts of one array."""
    valid = [replace_lone_surrogates(text) for text in texts]
    if _is_bare_backend(tokenizer):
        encodings = tokenizer.backend_tokenizer.encode_batch_fast(valid, add_special_tokens=False)
        rows = (encoding.ids for encoding in encodings)  # one list at a time, whose memory the next one takes
        lengths = [len(encoding) for encoding in encodings]
    else:
        rows = tokenizer(valid, **PLAIN)["input_ids"]
        lengths = [len(ids) for ids in rows]
    joined = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(lengths))
    return array_parts(joined, lengths)


def array_parts(joined: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Cut an array into parts of the given lengths, without a copy."""
    return [joined[end - length : end] for length, end in zip(lengths, accumulate(lengths), strict=True)]


def token_ids_and_spans(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens of each text without special tokens, int32 ``(n,)``, and their spans in it, int64 ``(n, 2)``."""
    valid = [replace_lone_surrogates(text) for text in texts]
    if _is_bare_backend(tokenizer):
        encodings = tokenizer.backend_tokenizer.encode_batch(valid, add_special_tokens=False)
    else:
        encodings = tokenizer(valid, **PLAIN).encodings
    for encoding in encodings:
        bounds = np.fromiter(chain.from_iterable(encoding.offsets), dtype=np.int64, count=2 * len(encoding))
        yield np.array(encoding.ids, dtype=np.int32), bounds.reshape(-1, 2)


def tokens_per_sentence(sentences: Sequence[str], ends: np.ndarray) -> list[int]:
    """Number of tokens of each sentence that has any; ``ends`` ``(n,)`` is the last character of each token, plus 1."""
    if not len(ends):
        return []
    # A token belongs to the sentence with its last character, because byte-level and SentencePiece tokens may start
    # with the white space at the end of the sentence before. The running maximum keeps tokens without characters in
    # order.
    last_characters = np.maximum.accumulate(np.maximum(ends - 1, 0)).astype(np.int64)
    sentence_ends = np.cumsum([len(sentence) for sentence in sentences])
    lengths = np.bincount(np.searchsorted(sentence_ends, last_characters, side="right"))
    return lengths[lengths > 0].tolist()


def tokenizer_batches(
    texts: Iterable[T], characters_of: Callable[[T], int] = len, most_characters: int = TOKENIZER_CHARACTERS
) -> Iterator[list[T]]:
    """Batch texts in order, at most 1,000 texts and ``most_characters`` a batch; a longer text is its own batch."""
    batch: list[T] = []
    characters = 0
    for text in texts:
        characters += characters_of(text)
        if batch and (len(batch) == TOKENIZER_BATCH or characters > most_characters):
            yield batch
            batch = []
            characters = characters_of(text)
        batch.append(text)
    if batch:
        yield batch


def find_safe_cut_pattern(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str] | None:
    """Pattern of the places at which a text can be cut without changing its tokens, found by trials; None if none."""
    if not tokenizer.is_fast:
        return None
    added = list(tokenizer.added_tokens_decoder.values())
    patterns = [cut.pattern for cut in _CUTS if _is_certain(cut, tokenizer, added)]
    return re.compile("|".join(patterns)) if patterns else None


def windows(text: str, cuts: re.Pattern[str] | None, size: int = WINDOW) -> Iterator[str]:
    """Cut a text into parts that join to it, each ending at the first of the ``cuts`` after ``size`` characters."""
    start = 0
    while cuts is not None and len(text) - start > size and (cut := cuts.search(text, start + size)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:] if start else text


def count_tokens(text: str, tokenizer: PreTrainedTokenizerBase, cuts: re.Pattern[str] | None) -> int:
    """Count a text's tokens without special tokens, one window at a time to save memory."""
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
    """The end of a text that contains its last ``tokens``, with the same tokens as in the whole text."""
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
    """Cut texts, or pairs, to the beginnings that a tokenizer needs for ``max_length`` tokens, truncated on the right.

    Otherwise a tokenizer would process a whole text before it truncates, and combine all parts of a long pair.
    """
    longest = min(2 * CHARACTERS_PER_TOKEN * max_length, WINDOW)  # characters of a short text of a pair
    find_cuts = cache(lambda: find_safe_cut_pattern(tokenizer))
    for text, pair in inputs:
        both = [text] if pair is None else [text, pair]
        is_long = [len(one) > (WINDOW if pair is None else longest) for one in both]
        if not any(is_long) or tokenizer.truncation_side != "right":
            yield text, pair
        elif pair is None:
            yield beginning(text, max_length, tokenizer, find_cuts()), None
        else:
            # A tokenizer truncates the text with more tokens first, and the second if both have equally many. So the
            # same text must remain the longer one.
            tokens = [count_tokens(one, tokenizer, find_cuts()) for one in both] if all(is_long) else is_long
            long = 0 if tokens[0] > tokens[1] else 1
            short = 1 - long
            both[short] = beginning(both[short], max_length, tokenizer, find_cuts(), longest)
            more = max(max_length, count_tokens(both[short], tokenizer, None))
            both[long] = beginning(both[long], more, tokenizer, find_cuts(), longest)
            yield both[0], both[1]


def _is_bare_backend(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether ``tokenizer(texts)`` gives what its backend gives, which is then called without its Python.

    Settings of the backend are only read, because other threads may use the tokenizer. One that truncates or pads is
    left to ``tokenizer(texts)``, which resets it.
    """
    if getattr(tokenizer, "is_bare_backend", False):  # of an exported classifier
        return True
    from transformers import PreTrainedTokenizerFast

    kind = type(tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or kind.__call__ is not PreTrainedTokenizerFast.__call__:
        return False
    if kind._encode_plus is not PreTrainedTokenizerFast._encode_plus:  # private in transformers 5.23
        return False
    backend = tokenizer.backend_tokenizer
    is_reset = backend.truncation is None and backend.padding is None
    return is_reset and backend.encode_special_tokens == tokenizer.split_special_tokens


def _is_certain(cut: _Cut, tokenizer: PreTrainedTokenizerBase, added: list[AddedToken]) -> bool:
    """Whether a tokenizer gives the same tokens with and without the cut, for examples of its characters."""
    if any(_reaches_across(token, cut) for token in added):
        return False
    # One example of each side has another word beside it, for tokenizers that join two words.
    some_left = _EXAMPLES.get(cut.left, cut.left)
    some_right = _EXAMPLES.get(cut.right, cut.right)
    lefts = [*some_left, f"a {some_left[0]}"]
    rights = [cut.after + right for right in (*some_right, f"{some_right[0]} a")]
    pairs = list(product(lefts, rights))
    ids = dict(zip(lefts + rights, tokenizer(lefts + rights, **PLAIN)["input_ids"], strict=True))
    together = tokenizer([left + right for left, right in pairs], **PLAIN)
    for (left, right), found, encoding in zip(pairs, together["input_ids"], together.encodings, strict=True):
        before = ids[left]
        after = ids[right]
        if found != before + after:
            return False
        words = encoding.word_ids
        if before and after and words[len(before) - 1] == words[len(before)]:
            return False
    return True


def _reaches_across(token: AddedToken, cut: _Cut) -> bool:
    """Whether an added token contains the cut, or depends on the characters around it."""
    content = str(token.content)
    takes_space = token.rstrip and re.search(cut.pattern, f"{content}{cut.after}a字")
    return bool(re.search(cut.pattern, content) or takes_space or (token.single_word and not cut.after))
