"""Reimplement pysbd's common rules for English, to find in one scan the boundaries where pysbd is certain to split.

pysbd rewrites the whole text dozens of times to hide marks that do not end a sentence, and then splits at the others.
For most marks, the word before and the characters after the mark determine whether pysbd splits there. These cases are
taken from pysbd 0.3.4 and its lists; all others are uncertain, and left to pysbd.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

_MARKS = re.compile(r"[.!?]+\s*")
# Characters with rules that are not covered here: marks of other scripts, pysbd's own placeholders, and line separators
# other than the line end.
_NOT_COVERED = re.compile("[。．！？（「\x0b\x0c\x1c-\x1f\x85\u2028\u2029∯♨☝☉☈☇☄ȸȹ☏ƪ♟♝∮♬♭ᓰᓱᓳᓴᓷᓸ✂⌬⎋]")
_EXCLAMATION_WORD = re.compile(r"![XK]|Yahoo!|Y!J|Yum!")
_ASIDE_AFTER_QUOTATION = re.compile(r"[\"”]\s\(")
_ASIDE_BEFORE_QUOTATION = re.compile(r"\)\s[\"“]")
_CLOSING = {"(": ")", '"': '"', "“": "”", "'": "'"}
_QUOTATION_END = re.compile(r"[!?.\-][\"'“”]\s(?=[A-Z])")

# Each pattern starts with a character that is fast to find, and then checks the characters before it.
_ITEM_WITH_PERIOD = re.compile(r"\.(?:(?<=\s[a-z]\.)|(?:(?<=[\s\-⁃]\d\.)|(?<=[\s\-⁃]\d\d\.))(?=[\s)]))")
_ITEM_WITH_PARENTHESIS = re.compile(r"(?<![^\s(])([a-z]|[ivx]{2,5})\)")
_NUMBER_WITH_PARENTHESIS = re.compile(r"\d{1,2}(?=\)\s)")
_NUMBERED_ITEM = re.compile(r"\s\d{1,2}\)\s")
_NUMBER_AT_START = re.compile(r"\d{1,2}[.)]")
_LETTERS = list(string.ascii_lowercase)
# As in pysbd, which repeats some numerals.
_ROMAN_NUMERALS = "i ii iii iv v vi vii viii ix x xi xii xiii xiv x xi xii xiii xv xvi xvii xviii xix xx".split()
_ROMAN_IN_PARENTHESES = re.compile(r"\([mdclxvi]+\)")

_LONGEST_WORD = 12  # characters to read before a mark: longer than any abbreviation
_CAPITAL = re.compile(r"\s[A-Z]")
_CAPITAL_AFTER_SPACES = re.compile(r"\s+[A-Z]")
_SMALL = re.compile(r"\s[a-z]")
_PERIOD_WITHIN = re.compile(r"(?<!\w)[A-Za-z]\.[A-Za-z]\Z")
_STARTER = re.compile(
    r"\s(?:A|Being|Did|For|He|How|However|I|In|It|Millions|More|She|That|The|There|They|We|What|When|Where|Who|Why)\s"
)
_BEFORE_STARTER = ("U.S", "U.K", "E.U", "U.S.A", "I", "i.v", "I.V")
_BEFORE_CAPITAL = ("a.m", "A.M", "p.m")
_REFERENCE = re.compile(r"(?:\d{1,3}\s?)?\d{1,3}\s[A-Z]|\[\d")
_FILE_ENDING = re.compile(
    r"(?:jpe?g|png|gif|tiff?|pdf|ps|docx?|xlsx?|svg|bmp|tga|exif|odt|html?|txt|rtf|bat|sxw|xml|zip|exe|msi|blend|wmv"
    r"|mp[34]|pptx?|flac|rb|cpp|cs|js)\s"
)
# If one of these follows an abbreviation's period, the period does not end a sentence.
_AFTER_ABBREVIATION = re.compile(r"[.:\-?,]|\s(?:[a-z]|I\s|I'm|I'll|\d|\()")
_AFTER_TITLE = re.compile(r"\s|:\d")
_AFTER_NUMBER_WORD = re.compile(r"\s\d|\s+\(")


def _pair(opening: str, closing: str, inside: str = "") -> str:
    """The pattern of a span with content that has no backslash or is exactly one escaped character (pysbd's rule).

    The second alternative consumes an opening mark that starts no span, so that the regex does not scan it again, which
    takes quadratic time. Only real spans set group 1.
    """
    others = rf"[^{closing}\\{inside}]"
    return rf"({opening}(?:{others}+|\\[^{closing}{inside}]){closing})|{opening}{others}*(?=[^\\]\\)"


class _SpanKind(NamedTuple):
    """A kind of span, in quotation marks, brackets or dashes, within which pysbd does not end a sentence."""

    opening: str
    closing: str
    pattern: re.Pattern[str]  # a match is a span if it has a group


_SPANS = [
    _SpanKind("(", ")", re.compile(_pair(r"\(", r"\)", r"\("), re.DOTALL)),
    _SpanKind("--", "--", re.compile(r"(--[^-]*--)", re.DOTALL)),
    _SpanKind('"', '"', re.compile(_pair('"', '"'), re.DOTALL)),
    _SpanKind("[", "]", re.compile(_pair(r"\[", r"\]"), re.DOTALL)),
    _SpanKind("“", "”", re.compile(_pair("“", "”"), re.DOTALL)),
    _SpanKind("«", "»", re.compile(_pair("«", "»"), re.DOTALL)),
    # Single quotation marks open after white space, and close at the first mark not followed by a letter, otherwise
    # at the last mark.
    _SpanKind("'", "'", re.compile(r"((?<=\s)'(?:.*?'(?![a-zA-Z])|.*'))", re.DOTALL)),
    _SpanKind("‘", "’", re.compile(r"((?<=\s)‘(?:.*?’(?![a-zA-Z])|.*’))", re.DOTALL)),
]
_APOSTROPHE_BEFORE_SPACE = re.compile(r"'[^\S\r\n]")


class _Boundary(enum.Enum):
    """Whether pysbd splits at a place."""

    CERTAIN = enum.auto()  # it does
    DEPENDENT = enum.auto()  # it does, but the text after must be passed to it together with the text before
    UNCERTAIN = enum.auto()  # it may


class _Part(NamedTuple):
    """A part of a line between two certain boundaries."""

    start: int
    end: int
    is_certain: bool  # whether it has no uncertain boundary
    is_dependent: bool  # whether pysbd splits it differently without the part before


def cut_at_certain_boundaries(line: str) -> list[tuple[str, bool]]:
    """Cut a line of English at the boundaries that pysbd certainly finds, in linear time.

    Returns pieces that join to the line, each with whether it is a single sentence; pysbd has to split the others.
    """
    if _NOT_COVERED.search(line) or _may_hold_list(line) or _holds_exclamation_word_or_aside(line):
        return [(line, False)]
    parts: list[_Part] = []
    start = 0
    is_certain = True
    is_dependent = False
    for end, boundary in itertools.chain(_boundaries(line), [(len(line), _Boundary.CERTAIN)]):
        if boundary is _Boundary.UNCERTAIN:
            is_certain = False
            continue
        while is_dependent and not is_certain:  # pysbd has to read it together with the part before
            before = parts.pop()
            start = before.start
            is_dependent = before.is_dependent
        parts.append(_Part(start, end, is_certain, is_dependent))
        start = end
        is_certain = True
        is_dependent = boundary is _Boundary.DEPENDENT
    pieces: list[tuple[str, bool]] = []
    for part in parts:
        piece = line[part.start : part.end]
        pieces += _cut_at_quotation_ends(piece) if part.is_certain else [(piece, False)]
    return pieces


def _boundaries(line: str) -> Iterator[tuple[int, _Boundary]]:
    """Yield the boundaries within a line, by position.

    ``UNCERTAIN``: the text since the last certain boundary may contain any number of boundaries.
    """
    if not ("." in line or "?" in line or "!" in line):
        return
    spans = find_protected_spans(line)
    merged = merge_spans(spans)
    merged_ends = {end for _, end in merged}
    protected = iter([*merged, (len(line), len(line))])
    protected_from, protected_to = next(protected)  # the first protected span that ends after the current mark
    last_closing: dict[str, int] = {}
    start = len(line) - len(line.lstrip())  # of the current sentence
    opening_end, _ = _opening_end(line, start, spans, last_closing)
    # pysbd splits after an opening quotation or aside only in lines that contain ".", "!" or "?".
    if opening_end > start:
        yield start, _Boundary.UNCERTAIN
    for match in _MARKS.finditer(line):
        position, end = match.span()
        while protected_to <= position:
            protected_from, protected_to = next(protected)
        marks = match[0].rstrip()
        if protected_from <= position:
            if marks[-1] == "." and _REFERENCE.match(line, position + len(marks)):
                yield end, _Boundary.UNCERTAIN
                opening_end = len(line)  # pysbd splits there first, so that spans which opened before never close
            continue
        if position < opening_end:
            continue
        if marks == ".":
            is_boundary = _full_stop_ends(line, start, position)
        else:
            is_boundary = _other_marks_end(line, start, position, marks)
        if is_boundary is False or (is_boundary and end == len(line)):
            continue
        if not is_boundary:
            yield end, _Boundary.UNCERTAIN
            opening_end, _ = _opening_end(line, end, spans, last_closing)
            continue
        # At the start of a line, pysbd treats some texts differently: a number, for example, as the number of a list.
        is_dependent = not line[end - 1].isspace() or line[end] in "'‘." or _NUMBER_AT_START.match(line, end)
        yield end, _Boundary.DEPENDENT if is_dependent else _Boundary.CERTAIN
        start = end
        opening_end, is_certain = _opening_end(line, start, spans, last_closing)
        if opening_end > start:
            if not is_certain:
                yield opening_end, _Boundary.UNCERTAIN
                continue
            # If an inner quotation ends outside this one, both must be passed to pysbd together.
            is_closed = opening_end - 1 in merged_ends
            yield opening_end, _Boundary.CERTAIN if is_closed else _Boundary.DEPENDENT
            start = opening_end


def _full_stop_ends(line: str, start: int, position: int) -> bool | None:
    """Whether a single full stop at ``position`` ends the sentence that starts at ``start``; None if uncertain."""
    after = line[position + 1 : position + 2]
    before = line[position - 1 : position]
    if not before or before.isspace():
        return _full_stop_after_space_ends(line, start, position)
    if before in "°\\":
        return None
    if not after:
        return True
    if after.isdecimal() or after == "[":
        if before.isdecimal() and after != "[":
            return False
        return None if _REFERENCE.match(line, position + 1) else after == "["
    if before.isdecimal() and not after.isspace():
        return False
    if _is_word_character(before) and _is_word_character(after):
        if line[position - 2 : position - 1] != ".":
            return False
        is_abbreviation = line[position + 2 : position + 3] == "." and before.isalpha() and after.isalpha()
        return False if is_abbreviation else None
    word = _word_before(line, position)
    if word.endswith(".") or (word.endswith("Co") and line.startswith("KG", position + 2)):
        return None
    is_letter = len(word) == 1 and "A" <= word <= "Z"
    is_before_space = after.isspace() or (after == "," and line[position + 2 : position + 3].isspace())
    is_initial = is_letter and is_before_space
    if is_initial or (word[-2:-1] == "." and _PERIOD_WITHIN.search(word)):
        return _full_stop_of_initials_ends(line, position, word)
    if after == "'" and line.startswith("s", position + 2) and not line[position + 3 : position + 4].strip():
        return False
    if position < 3 and after.isspace() and line[:position].isdecimal():  # a number at the start of the line
        return not line[position + 2 : position + 3].strip()
    text_after = _abbreviations().get(word.lower())
    return text_after is None or text_after.match(line, position + 1) is None


def _full_stop_after_space_ends(line: str, start: int, position: int) -> bool | None:
    """Whether a full stop after white space, or at the start of the line, ends a sentence; None if uncertain."""
    after = line[position + 1 : position + 2]
    if after.isdecimal() or _FILE_ENDING.match(line, position + 1):
        return False
    is_alone = position > start and line[position - 2] != "." and line[position + 2 : position + 3] != "."
    if is_alone and not after.strip():
        return True
    return None


def _full_stop_of_initials_ends(line: str, position: int, word: str) -> bool:
    """Whether the full stop after an initial, or an abbreviation with periods such as "U.S.", ends a sentence."""
    if word.endswith(_BEFORE_CAPITAL) or (word == "P.M" and line[position - 4 : position - 3] == " "):
        return _CAPITAL.match(line, position + 1) is not None
    return word.endswith(_BEFORE_STARTER) and _STARTER.match(line, position + 1) is not None


def _other_marks_end(line: str, start: int, position: int, marks: str) -> bool | None:
    """Whether marks other than a single full stop end a sentence; None if uncertain."""
    end = position + len(marks)
    before = line[position - 1 : position]
    after = line[end : end + 1]
    if "." in marks:
        return _full_stops_end(line, position, marks)
    if position == start:
        return None
    if len(marks) > 2:
        return False if before.strip() and not after.strip() else None
    if len(marks) == 2:
        return True
    if after in ("'", '"'):
        return False
    if marks == "!" and _SMALL.match(line, end + (after == ",")):
        return False
    return True


def _full_stops_end(line: str, position: int, marks: str) -> bool | None:
    """Whether several marks, at least one of them a full stop, end a sentence; None if uncertain."""
    if marks.strip(".") or marks == "..":
        return None
    end = position + len(marks)
    before = line[position - 1 : position]
    after = line[end : end + 1]
    word = _word_before(line, position)
    if before.isdecimal() or after.isdecimal() or after == "[" or "." in word or word.lower() in _abbreviations():
        return None
    if marks == "...":
        return _CAPITAL_AFTER_SPACES.match(line, end) is not None
    if not before or before.isspace() or len(marks) != 4:
        return None
    if not after or _CAPITAL.match(line, end) or not _CAPITAL_AFTER_SPACES.match(line, end):
        return True
    return None


def _opening_end(line: str, start: int, spans: dict[int, int], last_closing: dict[str, int]) -> tuple[int, bool]:
    """End of a quotation or aside at ``start`` that pysbd treats as its own sentence, and whether that is certain.

    The end is ``start`` if there is none. ``last_closing`` is a cache: the position of the last closing mark, by
    opening mark.
    """
    opening = line[start : start + 1]
    if opening not in _CLOSING:
        return start, True
    if opening not in last_closing:  # one search per line: repeated searches without success take quadratic time
        last_closing[opening] = line.rfind(_CLOSING[opening])
    if start >= last_closing[opening]:
        return start, True
    end = spans.get(start)
    if end is None or opening == "'" or line.startswith(opening, end) or _ROMAN_IN_PARENTHESES.match(line, start, end):
        return line.find(_CLOSING[opening], start + 1) + 1, False
    shortest = 4 if opening == "(" else 3
    is_before_comma = opening != "(" and line[end - 2] == ","
    if end - start < shortest or is_before_comma or not _CAPITAL.match(line, end):
        return start, True
    return end + 1, True


def _cut_at_quotation_ends(sentence: str) -> list[tuple[str, bool]]:
    """Apply pysbd's second pass, which splits after a mark and a closing quotation mark before a capital."""
    pieces = []
    start = 0
    for match in _QUOTATION_END.finditer(sentence):
        if "'" in match[0]:
            # The ' may belong to a span of single quotation marks, within which pysbd does not split: pysbd decides.
            return [(sentence, False)]
        pieces.append((sentence[start : match.end()], True))
        start = match.end()
    return [*pieces, (sentence[start:], True)]


def _may_hold_list(line: str) -> bool:
    """Whether a line may hold a list with numbers, letters or Roman numerals."""
    periods = []
    if line.count(".") > 1:
        periods = [match.start() for match in _ITEM_WITH_PERIOD.finditer(f" {line}")]
    if len(periods) > 1:
        items = []
        for position in periods:
            before = line[max(position - 3, 0) : position - 1]
            items.append(before.split()[-1].strip("-⁃"))
        if _is_numbered([int(item) for item in items if item.isdecimal()]) or _is_lettered(items, _LETTERS):
            return True
    if line.count(")") < 2:
        return False
    letters = _ITEM_WITH_PARENTHESIS.findall(line)
    if len(letters) > 1 and (_is_lettered(letters, _LETTERS) or _is_lettered(letters, _ROMAN_NUMERALS)):
        return True
    if not _NUMBERED_ITEM.search(line):
        return False
    return _is_numbered([int(number) for number in _NUMBER_WITH_PARENTHESIS.findall(line)])


def _is_lettered(items: list[str], alphabet: list[str]) -> bool:
    """Whether any two consecutive items, or the last and the first, are neighbors in an alphabet."""
    places = [alphabet.index(item) for item in items if item in alphabet]
    following = places[1:] + places[:1]
    return any(abs(place - next_place) == 1 for place, next_place in zip(places, following, strict=True))


def _is_numbered(numbers: list[int]) -> bool:
    """Whether any two neighboring numbers are consecutive; pysbd also counts 9 and 0 as consecutive."""
    for number, next_number in itertools.pairwise(numbers):
        if next_number == number + 1 or {number, next_number} == {0, 9}:
            return True
    return False


def _holds_exclamation_word_or_aside(line: str) -> bool:
    """Whether a line has a word such as "Yahoo!", or an aside between two quotations."""
    if "!" in line and _EXCLAMATION_WORD.search(line):
        return True
    aside = _ASIDE_AFTER_QUOTATION.search(line) if "(" in line else None
    return aside is not None and _ASIDE_BEFORE_QUOTATION.search(line, aside.end()) is not None


def _word_before(line: str, position: int) -> str:
    """The word before a position, or its last characters."""
    words = line[max(position - _LONGEST_WORD, 0) : position].rsplit(None, 1)
    return words[-1] if words else ""


def _is_word_character(character: str) -> bool:
    r"""Whether ``\w`` of an ASCII pattern matches a character."""
    return character.isascii() and (character.isalnum() or character == "_")


@functools.cache
def _abbreviations() -> dict[str, re.Pattern[str]]:
    """By abbreviation, the pattern of texts after its period; if it matches, the period does not end a sentence."""
    from pysbd.languages import LANGUAGE_CODES

    lists = LANGUAGE_CODES["en"].Abbreviation
    rules = dict.fromkeys(lists.ABBREVIATIONS, _AFTER_ABBREVIATION)
    rules |= dict.fromkeys(lists.NUMBER_ABBREVIATIONS, _AFTER_NUMBER_WORD)
    return rules | dict.fromkeys(lists.PREPOSITIVE_ABBREVIATIONS, _AFTER_TITLE)


def find_protected_spans(line: str) -> dict[int, int]:
    """The spans within which pysbd never splits: end by start. Spans of different kinds may overlap."""
    spans: dict[int, int] = {}
    for opening, closing, pattern in _SPANS:
        if opening not in line:
            continue
        # If no apostrophe precedes white space, pysbd treats every one as leading ('tis).
        if opening == "'" and not _APOSTROPHE_BEFORE_SPACE.search(line):
            continue
        last_closing = line.rfind(closing)
        for match in pattern.finditer(line, 0, last_closing + len(closing)):
            if match.lastindex:
                spans[match.start()] = match.end()
    return spans


def merge_spans(spans: dict[int, int]) -> list[tuple[int, int]]:
    """Merge nested and overlapping spans: start and end of each, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans.items()):
        last_start, last_end = merged[-1] if merged else (0, 0)
        if start < last_end:
            merged[-1] = (last_start, max(end, last_end))
        else:
            merged.append((start, end))
    return merged
