"""The words of a text in four groups, nouns, verbs, adjectives and others, as a tagger tells them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tqdm.auto import tqdm

from docsplit_hf.text.characters import replace_lone_surrogates

logger = logging.getLogger(__name__)

GROUPS = ("noun", "verb", "adjective", "other")
CHARACTERS = 100_000  # of one text, 15,000 words; spaCy itself refuses a text of more than a million
UNBROKEN_CHARACTERS = 300  # without a space: data, no words, in languages that have spaces

# Tokenizers take marks off a string one by one, in time quadratic in its length: minutes for a long "=====".
_SEPARATOR = re.compile(r"(?:[^\w\s]|_){50,}")
_UNBROKEN = re.compile(rf"\S{{{UNBROKEN_CHARACTERS + 1},}}")


class Word(NamedTuple):
    """A word: its characters, where they start in the text, its group, and what its forms share, its lemma or stem."""

    text: str
    start: int
    group: str
    base: str

    @property
    def end(self) -> int:
        """The character after the last."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Tagger:
    """Tells parts of speech; in the place of a system, since how often words repeat does not depend on what embeds."""

    name: str  # with the version: results are known by it
    words_of: Callable[[Sequence[str]], Iterator[list[Word]]]

    @property
    def fingerprint(self) -> str:
        """What the words depend on."""
        return self.name

    def tag(self, texts: Sequence[str]) -> Iterator[list[Word]]:
        """The words of each text, a token with a letter or a digit being one.

        All that is no noun, verb or adjective is ``"other"``; proper nouns are nouns, auxiliaries are others, and
        punctuation is no word, none of which the papers say. Words start where they do in the text, lone surrogates
        replaced. What is left out of overlong texts and strings is counted in the log.
        """
        return iter(tqdm(self.words_of(texts), total=len(texts), desc="Tagging", unit="text"))


def within_bounds(texts: Sequence[str], blank_unbroken: bool = True) -> list[str]:
    """What is read in a time that does not grow with the square of a text; every word keeps its place."""
    valid = [replace_lone_surrogates(text) for text in texts]
    kept, blanked = [], 0
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
            *(len(cut), len(valid), CHARACTERS, sum(cut), blanked, UNBROKEN_CHARACTERS),
        )
    return kept


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
