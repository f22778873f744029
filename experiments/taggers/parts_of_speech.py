"""Tagged words in four groups: nouns, verbs, adjectives and others."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tqdm.auto import tqdm

from docsplit_hf.reading.characters import replace_lone_surrogates

logger = logging.getLogger(__name__)

GROUPS = ("noun", "verb", "adjective", "other")
CHARACTERS = 100_000  # at most of one text, about 15,000 words; spaCy refuses a text of more than a million
UNBROKEN_CHARACTERS = 300  # a longer string without a space is data, not a word, in languages with spaces

# Tokenizers strip punctuation from a string one by one, in quadratic time: minutes for a long "=====".
_SEPARATOR = re.compile(r"(?:[^\w\s]|_){50,}")
_UNBROKEN = re.compile(rf"\S{{{UNBROKEN_CHARACTERS + 1},}}")


class Word(NamedTuple):
    """A word of a text."""

    text: str
    start: int  # its first character in the text
    group: str  # one of GROUPS
    base: str  # lemma or stem

    @property
    def end(self) -> int:
        """The character after its last one in the text."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Tagger:
    """A part-of-speech tagger; it takes the place of a system where a measurement depends on the tagger alone."""

    name: str  # includes the version, since records are identified by it
    words_of: Callable[[Sequence[str]], Iterator[list[Word]]]

    @property
    def fingerprint(self) -> str:
        """The identity of the tagger in records."""
        return self.name

    def tag(self, texts: Sequence[str]) -> Iterator[list[Word]]:
        """Tag the words of each text; every token with a letter or a digit is a word.

        Proper nouns are nouns; auxiliaries, and whatever is neither noun, verb nor adjective, are ``"other"``. The
        papers leave both open. Words keep their positions in the text, with lone surrogates replaced. What is left out
        of overlong texts and strings is counted in the log.
        """
        return iter(tqdm(self.words_of(texts), total=len(texts), desc="Tagging", unit="text"))


def within_bounds(texts: Sequence[str], blank_unbroken: bool = True) -> list[str]:
    """Texts truncated, and with overlong strings blanked, to avoid quadratic time; words keep their positions."""
    valid = [replace_lone_surrogates(text) for text in texts]
    kept = []
    blanked = 0
    for text in valid:
        text = text[:CHARACTERS]
        if blank_unbroken:
            text, times = _UNBROKEN.subn(_blank, _SEPARATOR.sub(_blank, text))
            blanked += times
        kept.append(text)
    cut = [len(text) - CHARACTERS for text in valid if len(text) > CHARACTERS]
    if cut or blanked:
        logger.warning(
            "%d of %d texts are longer than %d characters: their last %d characters in all are left out; so are %d "
            "strings of more than %d characters without a space.",
            len(cut),
            len(valid),
            CHARACTERS,
            sum(cut),
            blanked,
            UNBROKEN_CHARACTERS,
        )
    return kept


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
