"""How a text is written, in plain numbers of any language: lengths, richness, punctuation, capitals and layout.

Function words are not among them: the experts on words have these, and with them the product with words is worse.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...reading.words import MAX_CHARACTERS

# Words; of scripts without spaces (Thai to Chinese), single characters.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SENTENCE_END = re.compile(r"[.!?。！？…]+[\s\"'”’)]*|\n\s*\n")
_LAST_OF_SENTENCE = tuple(".!?。！？")
MARKS = {
    ",": "commas", ".": "full stops", ";": "semicolons", ":": "colons", "!": "exclamation marks",
    "?": "question marks", '"': "quotation marks", "'": "apostrophes", "(": "opening brackets",
    ")": "closing brackets", "-": "hyphens", "\n": "line breaks", "/": "slashes", "%": "percent signs",
    "*": "asterisks", "#": "number signs", "@": "at signs", "&": "ampersands",
}  # fmt: skip
_PATTERNS = {
    "web addresses": re.compile(r"https?://\S+|www\.\S+"),
    "letters drawn out": re.compile(r"(\w)\1\1"),
    "rows of dots": re.compile(r"\.\.+|…"),
    "rows of exclamation or question marks": re.compile(r"[!?]{2,}"),
    "apostrophes inside words": re.compile(r"\w['’]\w"),
}
_BULLET = re.compile(r"(?m)^\s*(?:[-*•–]|\d+[.)])\s")
LONG_WORD = 7
VERY_LONG_WORD = 11
SHORT_WORD = 3
LEAST_FREQUENCY = 1e-4  # of a sign that a typical text does not have


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


class Kind(Enum):
    """What a number measures, which decides how it is transformed and described."""

    LENGTH = auto()  # its logarithm is taken
    SHARE = auto()  # of the words or lines; the square root of this and the following is taken
    FREQUENCY = auto()  # compared with other texts only
    FACT = auto()  # 0 or 1


class StyleNumber(NamedTuple):
    """What one number counts."""

    name: str
    kind: Kind

    def describe(self, value: float, typical: float) -> str:
        """Describe the number of a text, beside that of a typical text."""
        if self.kind is Kind.FACT:
            return f"{self.name}: {'yes' if value else 'no'}"
        if self.kind is Kind.LENGTH:
            return f"{_short(value)} {self.name} (typical: {_short(typical)})"
        if self.kind is Kind.SHARE:
            return f"{value:.0%} {self.name} (typical: {typical:.0%})"
        if not value:
            return f"no {self.name}"
        return f"{self.name} {_short(value / max(typical, LEAST_FREQUENCY))} times as often as in a typical text"


STYLE_NUMBERS = (
    StyleNumber("words", Kind.LENGTH),
    StyleNumber("sentences", Kind.LENGTH),
    StyleNumber("words in a sentence", Kind.LENGTH),
    StyleNumber("words by which sentences differ in length", Kind.LENGTH),
    StyleNumber("letters in a word", Kind.LENGTH),
    StyleNumber("characters in a line", Kind.LENGTH),
    StyleNumber("lines", Kind.LENGTH),
    StyleNumber("long words", Kind.SHARE),
    StyleNumber("very long words", Kind.SHARE),
    StyleNumber("short words", Kind.SHARE),
    StyleNumber("words of one letter", Kind.SHARE),
    StyleNumber("different words, for this length,", Kind.FREQUENCY),
    StyleNumber("words that occur once", Kind.SHARE),
    StyleNumber("words that are the most frequent one", Kind.SHARE),
    StyleNumber("words in capitals", Kind.SHARE),
    StyleNumber("words with a first capital", Kind.SHARE),
    StyleNumber("words in small letters", Kind.SHARE),
    StyleNumber("lines that are items of a list", Kind.SHARE),
    StyleNumber("capital letters", Kind.FREQUENCY),
    StyleNumber("digits", Kind.FREQUENCY),
    StyleNumber("other signs", Kind.FREQUENCY),
    StyleNumber("begins with a capital letter", Kind.FACT),
    StyleNumber("ends with a full stop, exclamation or question mark", Kind.FACT),
    *(StyleNumber(name, Kind.FREQUENCY) for name in _PATTERNS),
    *(StyleNumber(name, Kind.FREQUENCY) for name in MARKS.values()),
)
_LENGTHS = np.array([number.kind is Kind.LENGTH for number in STYLE_NUMBERS])


def style_of_texts(texts: Sequence[str]) -> np.ndarray:
    """Numbers of N texts, float32 ``(N, S)``, in the order of ``STYLE_NUMBERS``."""
    found = np.array([_style(text[:MAX_CHARACTERS]) for text in texts], np.float64).reshape(-1, len(STYLE_NUMBERS))
    return np.where(_LENGTHS, np.log1p(found), np.sqrt(found)).astype(np.float32)


def as_counted(values: np.ndarray) -> np.ndarray:
    """Undo logarithms and square roots of numbers ``(S,)``."""
    return np.where(_LENGTHS, np.expm1(values), np.square(values))


def _style(text: str) -> list[float]:
    """Lengths, and rates by word, line or character."""
    words_of_sentences = [_WORD.findall(part) for part in _SENTENCE_END.split(text)]
    sentences = [len(words) for words in words_of_sentences if words] or [0]
    words = list(chain.from_iterable(words_of_sentences))
    counts = Counter(map(str.lower, words))
    characters = Counter(text)
    sizes = list(map(len, words))
    size_counts = Counter(sizes)
    lines = [len(line) for line in text.split("\n") if line.strip()] or [0]
    ending = text.rstrip()
    by_word = 1 / max(len(words), 1)
    by_character = 1 / max(len(text), 1)
    sentence_length = sum(sentences) / len(sentences)
    variance = sum((length - sentence_length) ** 2 for length in sentences) / len(sentences)
    others = [c for c in characters if not (c.isalnum() or c.isspace() or c in MARKS)]
    return [
        len(words),
        len(sentences),
        sentence_length,
        math.sqrt(variance),
        sum(sizes) * by_word,
        sum(lines) / len(lines),
        len(lines),
        sum(count for size, count in size_counts.items() if size >= LONG_WORD) * by_word,
        sum(count for size, count in size_counts.items() if size >= VERY_LONG_WORD) * by_word,
        sum(count for size, count in size_counts.items() if size <= SHORT_WORD) * by_word,
        size_counts[1] * by_word,
        len(counts) * by_word**0.8,  # grows with the length about as the number of different words does
        list(counts.values()).count(1) * by_word,
        max(counts.values(), default=0) * by_word,
        sum(map(str.isupper, words)) * by_word,
        sum(map(str.istitle, words)) * by_word,
        sum(map(str.islower, words)) * by_word,
        len(_BULLET.findall(text)) / len(lines),
        sum(characters[c] for c in characters if c.isupper()) * by_character,
        sum(characters[c] for c in characters if c.isdigit()) * by_character,
        sum(characters[c] for c in others) * by_character,
        float(text[:1].isupper()),
        float(ending.endswith(_LAST_OF_SENTENCE)),
        *(len(pattern.findall(text)) * by_word for pattern in _PATTERNS.values()),
        *(characters[mark] * by_character for mark in MARKS),
    ]
