"""Split text into sentences with pysbd, by lines or with any function, without losing a character."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from .certain_boundaries import cut_at_certain_boundaries

# Limits for the input of pysbd: numbers of characters, so that boundaries do not depend on the machine.
PIECE_CHARACTERS = 1_000  # pysbd takes quadratic time: 2-3 microseconds per character at this length, 8 at 8,000
PIECE_LIST_MARKERS = 24  # pysbd's time is quadratic in the number of list markers
PIECE_COST = 50  # what a piece counts at least, in characters: a call of pysbd takes at least 70-110 microseconds
DOCUMENT_CHARACTERS = 100_000  # 0.3 s for prose, 1.3 s for the worst known text within the other limits

PATTERNS = {
    "newline": re.compile(r"[^\r\n]*[\r\n]+|[^\r\n]+"),  # a line is a sentence
    "whitespace": re.compile(r"\S+\s*|\s+"),  # a word is a sentence
}
# pysbd puts the white space between two sentences into the first, including the indentation of the next line.
_LINE_AND_INDENT = re.compile(r"[^\r\n]*[\r\n]\s*|[^\r\n]+")
_MARKS = ".!?…؟۔।॥።։፧၏"
_CJK_MARKS = "。！？．"
_CLOSING = "\"'”’»)\\]}」』）】》"
# Because of the look-behind, a match starts only at the first mark of a run; otherwise 50,000 full stops would take
# quadratic time.
_PLAIN_BOUNDARY = re.compile(
    rf"(?<![{_MARKS}{_CJK_MARKS}])"
    rf"(?:[{_MARKS}{_CJK_MARKS}]*[{_CJK_MARKS}][{_CLOSING}]*\s*"
    rf"|[{_MARKS}{_CJK_MARKS}]+[{_CLOSING}]*(?:\[\d{{1,3}}\])*\s+)"
)
_PLACEHOLDER = re.compile("[∯♨☝☉☈☇☄ȸȹ☏ƪ♟♝∮♬♭ᓰᓱᓳᓴᓷᓸ✂⌬⎋]")  # pysbd would change or drop these
# pysbd's NUMBERED_REFERENCE_REGEX tries every division of the digits and spaces of ".[484 216 622 ...". The number of
# divisions doubles with each character or two. ".[1][2][3]" has only one division.
_NUMBERED_REFERENCE = re.compile(r"\.(?:\[\d{1,3}\])*\[(?!\d{1,3}\])(?=[\d\s,\-\[\]]{12})")
_LIST_MARKER = re.compile(r"(?:\b(?:[a-z]|[ivx]{2,5})[.)]|\d[.)](?!\d))", re.IGNORECASE)

Splitter = Callable[[str], list[str]]


def get_segmenter(segmenter: str | Splitter = "pysbd", language: str = "en") -> Splitter:
    """Return a function that splits a text into sentences.

    Sentences join to the text, and none of them is blank unless the text is. The function is picklable if ``segmenter``
    is: ``"pysbd"``, a name in ``PATTERNS``, or any function from a text to its sentences.
    """
    if callable(segmenter):
        return functools.partial(_segment_with, segmenter)
    if segmenter == "pysbd":
        return PysbdSegmenter(language)
    if segmenter in PATTERNS:
        return functools.partial(_segment_with, PATTERNS[segmenter].findall)
    raise ValueError(
        f"Unknown segmenter {segmenter!r}: choose 'pysbd', {', '.join(map(repr, PATTERNS))} or a function."
    )


def split_plain(text: str) -> list[str]:
    """Split after a final mark with its quotation marks, references and white space, in linear time.

    Chinese, Japanese and Korean marks need no white space.
    """
    return _attach_blanks(_cut(text, [match.end() for match in _PLAIN_BOUNDARY.finditer(text)]))


def split_lines_plain(text: str) -> list[str]:
    """Split as ``split_plain`` does, and at line ends; for passages, which additional boundaries do not harm."""
    lines = _LINE_AND_INDENT.findall(text)
    return _attach_blanks(chain.from_iterable(map(split_plain, lines)))


@dataclass(frozen=True)
class PysbdSegmenter:
    """Split text with the rules of pysbd, in bounded time and without losing a character.

    pysbd gets only those parts of English texts in which ``cut_at_certain_boundaries`` is uncertain. ``split_plain``
    replaces pysbd beyond the limits above, and where pysbd loses characters.
    """

    language: str = "en"

    def __post_init__(self) -> None:
        from pysbd.languages import LANGUAGE_CODES

        if self.language not in LANGUAGE_CODES:
            raise ValueError(f"pysbd has no language {self.language!r}: choose one of {sorted(LANGUAGE_CODES)}.")

    def __call__(self, text: str) -> list[str]:
        """Split a text into sentences that join to it."""
        sentences: list[str] = []
        characters_left = DOCUMENT_CHARACTERS
        lines = _LINE_AND_INDENT.findall(text)
        cut = map(cut_at_certain_boundaries, lines) if self.language == "en" else ([(line, False)] for line in lines)
        for part, is_sentence in chain.from_iterable(cut):
            if is_sentence:
                sentences.append(part)
                continue
            for piece in _pieces(part):
                split = None
                cost = max(len(piece), PIECE_COST)
                if cost <= characters_left and _is_within_limits(piece):
                    characters_left -= cost
                    with contextlib.suppress(ValueError):  # pysbd calls int() on list numbers with \x1c to \x1f
                        split = _split_with_pysbd(piece, self.language)
                sentences.extend(split_plain(piece) if split is None else split)
        return _attach_blanks(sentences)


def _segment_with(function: Splitter, text: str) -> list[str]:
    """Segment a text with any function, and check its result."""
    pieces = function(text)
    if not isinstance(pieces, (list, tuple)) or not all(isinstance(piece, str) for piece in pieces):
        raise TypeError(f"The segmenter returned {repr(pieces)[:80]}: it must return a list of strings.")
    joined = "".join(pieces)
    if joined != text:
        index = len(os.path.commonprefix([joined, text]))
        raise ValueError(
            f"The sentences do not join to the text: at character {index} it has {text[index : index + 20]!r}, they "
            f"have {joined[index : index + 20]!r}. Return every character once, white space at the end of a sentence."
        )
    return _attach_blanks(pieces)


def _is_within_limits(piece: str) -> bool:
    """Whether pysbd reads a piece in little time, and without changing its characters."""
    return (
        len(piece) <= PIECE_CHARACTERS
        and not _NUMBERED_REFERENCE.search(piece)
        and not _PLACEHOLDER.search(piece)
        and len(_LIST_MARKER.findall(piece)) <= PIECE_LIST_MARKERS
    )


def _pieces(line: str) -> list[str]:
    """Cut a part of a line into pieces of at most ``PIECE_CHARACTERS``, at likely ends of sentences."""
    if len(line) <= PIECE_CHARACTERS:
        return [line]
    cuts = [0]
    end = 0
    likely_end = 0
    for sentence in split_plain(line):
        while end > cuts[-1] and end + len(sentence) - cuts[-1] > PIECE_CHARACTERS:
            cuts.append(likely_end if likely_end > cuts[-1] else end)
        end += len(sentence)
        if sentence.rstrip()[-5:-1].isalpha():  # few abbreviations have four letters
            likely_end = end
    return _cut(line, cuts[1:])


def _split_with_pysbd(piece: str, language: str) -> list[str] | None:
    """The sentences of pysbd; None if it loses characters."""
    import pysbd

    starts = []
    position = 0
    # Segmenter.segment() would search for each sentence from the start of the text, and may lose some.
    for sentence in filter(str.strip, pysbd.Segmenter(language).processor(piece).process()):
        start = piece.find(sentence, position)
        if start < 0 or piece[position:start].strip():
            return None
        starts.append(start)
        position = start + len(sentence)
    return None if piece[position:].strip() else _cut(piece, starts[1:])


def _cut(text: str, places: list[int]) -> list[str]:
    """Cut a text at places, given in rising order."""
    return [text[start:end] for start, end in itertools.pairwise([0, *places, len(text)])]


def _attach_blanks(pieces: Iterable[str]) -> list[str]:
    """Join blank pieces to the sentence before, or to the first one."""
    groups: list[list[str]] = [[]]  # adding to a string piece by piece would be quadratic
    has_text = False
    for piece in pieces:
        is_text = bool(piece) and not piece.isspace()
        if has_text and is_text:
            groups.append([])
        groups[-1].append(piece)
        has_text = has_text or is_text
    return [sentence for sentence in map("".join, groups) if sentence]
