"""A text in pieces: the words and the passage that decided, and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

WORD, PASSAGE = "word", "passage"

Pieces = list[tuple[str, str | None]]


def pieces_of(text: str, words: Iterable[str], passage: Mapping[str, Any] | None = None) -> Pieces:
    """The text in pieces, which join to it again, each with what it is."""
    start, end = (0, 0) if passage is None else (passage["start"], passage["end"])
    of_words = [found.span() for found in _pattern(words).finditer(text)] if words else []
    cuts = sorted({0, start, end, len(text), *(place for span in of_words for place in span)})
    inside = {span[0] for span in of_words}
    until, pieces = 0, []
    for first, last in zip(cuts, cuts[1:], strict=False):
        if first in inside:
            until = next(span[1] for span in of_words if span[0] == first)
        kind = WORD if first < until else PASSAGE if start <= first < end else None
        if pieces and pieces[-1][1] == kind and kind != WORD:
            pieces[-1] = (pieces[-1][0] + text[first:last], kind)
        else:
            pieces.append((text[first:last], kind))
    return pieces


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """The words as they stand in a text: whole words, but in scripts without spaces."""
    from ..neighbors.experts.words import words_of

    longest = sorted(words, key=len, reverse=True)
    with_spaces = [words_of(f"x{word}x") == [f"x{word}x"] for word in longest]
    found = [
        rf"(?<!\w){re.escape(word)}(?!\w)" if spaced else re.escape(word)
        for word, spaced in zip(longest, with_spaces, strict=True)
    ]
    return re.compile("|".join(found), re.IGNORECASE)
