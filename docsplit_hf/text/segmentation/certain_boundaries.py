"""Where pysbd splits an English line for certain, told without pysbd: the common cases of its rules in one scan.

pysbd rewrites the whole text dozens of times to hide the marks that end no sentence, then splits at those left. Most
marks need none of it: the word before and the characters after decide. The rules here are taken from pysbd
0.3.4 and its lists; what none of them covers is uncertain, and left to pysbd.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
import string
from collections.abc import Iterator

_MARKS = re.compile(r"[.!?]+\s*")
# Marks of other scripts, pysbd's own placeholders, and line separators other than the line end.
_NOT_FOLLOWED = re.compile("[。．！？（「\x0b\x0c\x1c-\x1f\x85\u2028\u2029∯♨☝☉☈☇☄ȸȹ☏ƪ♟♝∮♬♭ᓰᓱᓳᓴᓷᓸ✂⌬⎋]")
_EXCLAMATION_WORD = re.compile(r"![XK]|Yahoo!|Y!J|Yum!")
_ASIDE_AFTER_QUOTATION, _ASIDE_BEFORE_QUOTATION = re.compile(r"[\"”]\s\("), re.compile(r"\)\s[\"“]")
_CLOSING = {"(": ")", '"': '"', "“": "”", "'": "'"}
_QUOTATION_END = re.compile(r"[!?.\-][\"'“”]\s(?=[A-Z])")

# The patterns start with a character that is searched for fast; what is before it is looked at only then.
_ITEM_WITH_PERIOD = re.compile(r"\.(?:(?<=\s[a-z]\.)|(?:(?<=[\s\-⁃]\d\.)|(?<=[\s\-⁃]\d\d\.))(?=[\s)]))")
_ITEM_WITH_PARENTHESIS = re.compile(r"(?<![^\s(])([a-z]|[ivx]{2,5})\)")
_NUMBER_WITH_PARENTHESIS = re.compile(r"\d{1,2}(?=\)\s)")
_NUMBERED_ITEM = re.compile(r"\s\d{1,2}\)\s")
_NUMBER_AT_START = re.compile(r"\d{1,2}[.)]")
_LETTERS = list(string.ascii_lowercase)
# As pysbd has it, double numerals included.
_ROMAN_NUMERALS = "i ii iii iv v vi vii viii ix x xi xii xiii xiv x xi xii xiii xv xvi xvii xviii xix xx".split()
_ROMAN_IN_PARENTHESES = re.compile(r"\([mdclxvi]+\)")

_LONGEST_WORD = 12  # characters looked at before a mark: more than any abbreviation has
_CAPITAL, _CAPITAL_SOMEWHERE, _SMALL = re.compile(r"\s[A-Z]"), re.compile(r"\s+[A-Z]"), re.compile(r"\s[a-z]")
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
# What follows the full stop of an abbreviation that ends no sentence.
_AFTER_ABBREVIATION = re.compile(r"[.:\-?,]|\s(?:[a-z]|I\s|I'm|I'll|\d|\()")
_AFTER_TITLE = re.compile(r"\s|:\d")
_AFTER_NUMBER_WORD = re.compile(r"\s\d|\s+\(")


def _pair(opening: str, closing: str, inside: str = "") -> str:
    """A span, which pysbd means to have escaped characters, but has without backslashes, or of one escaped character.

    What cannot open one because of a backslash is passed over: to look from each opening again would be quadratic.
    """
    others = rf"[^{closing}\\{inside}]"
    return rf"({opening}(?:{others}+|\\[^{closing}{inside}]){closing})|{opening}{others}*(?=[^\\]\\)"


# The parts in quotation marks, brackets or dashes, within which pysbd ends no sentence: how they open and close.
_SPANS = [
    (opening, closing, re.compile(pattern, re.DOTALL))
    for opening, closing, pattern in (
        ("(", ")", _pair(r"\(", r"\)", r"\(")),
        ("--", "--", r"(--[^-]*--)"),
        ('"', '"', _pair('"', '"')),
        ("[", "]", _pair(r"\[", r"\]")),
        ("“", "”", _pair("“", "”")),
        ("«", "»", _pair("«", "»")),
        # Single quotation marks open after white space and close where no letter follows, or with the last one.
        ("'", "'", r"((?<=\s)'(?:.*?'(?![a-zA-Z])|.*'))"),
        ("‘", "’", r"((?<=\s)‘(?:.*?’(?![a-zA-Z])|.*’))"),
    )
]
_APOSTROPHE_BEFORE_SPACE = re.compile(r"'[^\S\r\n]")


def cut_at_certain_boundaries(line: str) -> list[tuple[str, bool]]:
    """Cut a line of English at the boundaries that pysbd finds there for certain, in linear time.

    The pieces join to the line. Each comes with whether it is one sentence of pysbd's, or to be split by pysbd.
    """
    if _NOT_FOLLOWED.search(line) or _holds_list(line) or _holds_exclamation_word_or_aside(line):
        return [(line, False)]
    parts: list[tuple[int, bool, bool]] = []
    start, is_certain, is_dependent = 0, True, False
    for end, boundary in itertools.chain(_boundaries(line), [(len(line), _Boundary.CERTAIN)]):
        if boundary is _Boundary.UNCERTAIN:
            is_certain = False
            continue
        while is_dependent and not is_certain:
            start, _, is_dependent = parts.pop()
        parts.append((start, is_certain, is_dependent))
        start, is_certain, is_dependent = end, True, boundary is _Boundary.DEPENDENT
    pieces: list[tuple[str, bool]] = []
    for (start, is_certain, _), (end, _, _) in itertools.pairwise([*parts, (len(line), True, False)]):
        pieces += _cut_at_quotation_ends(line[start:end]) if is_certain else [(line[start:end], False)]
    return pieces


class _Boundary(enum.Enum):
    CERTAIN = enum.auto()
    DEPENDENT = enum.auto()  # certain, but to split what follows, pysbd must see what is before
    UNCERTAIN = enum.auto()


def _boundaries(line: str) -> Iterator[tuple[int, _Boundary]]:
    """All boundaries within the line; an uncertain one stands for any number of them from the last certain one on."""
    if not ("." in line or "?" in line or "!" in line):
        return
    spans = find_protected_spans(line)
    merged = merge_spans(spans)
    merged_ends = {end for _, end in merged}
    protected = iter([*merged, (len(line), len(line))])
    protected_from, protected_to = next(protected)
    last_closing: dict[str, int] = {}
    start = len(line) - len(line.lstrip())
    opening_end, _ = _opening_end(line, start, spans, last_closing)
    # Whether a line that starts with a quotation or aside is split after it depends on whether it holds a mark at all.
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
                opening_end = len(line)  # pysbd splits there first, so that what opened before is never closed
            continue
        if position < opening_end:
            continue
        is_boundary = _full_stop_ends(line, start, position) if marks == "." else _ends(line, start, position, marks)
        if is_boundary is False or (is_boundary and end == len(line)):
            continue
        if not is_boundary:
            yield end, _Boundary.UNCERTAIN
            opening_end, _ = _opening_end(line, end, spans, last_closing)
            continue
        # Where a line begins, pysbd takes a number for one of a list, a word for one after white space, and so on.
        is_dependent = not line[end - 1].isspace() or line[end] in "'‘." or _NUMBER_AT_START.match(line, end)
        yield end, _Boundary.DEPENDENT if is_dependent else _Boundary.CERTAIN
        start = end
        opening_end, is_certain = _opening_end(line, start, spans, last_closing)
        if opening_end > start:
            # pysbd must see it with what follows where another quotation opens in it and closes only later.
            found = _Boundary.CERTAIN if opening_end - 1 in merged_ends else _Boundary.DEPENDENT
            yield opening_end, found if is_certain else _Boundary.UNCERTAIN
            start = opening_end if is_certain else start


def _full_stop_ends(line: str, start: int, position: int) -> bool | None:
    """Whether a single full stop ends the sentence that begins at ``start``; None if that is uncertain."""
    after = line[position + 1 : position + 2]
    before = line[position - 1 : position]
    if not before or before.isspace():
        if after.isdecimal() or _FILE_ENDING.match(line, position + 1):
            return False
        is_alone = position > start and line[position - 2] != "." and line[position + 2 : position + 3] != "."
        return True if is_alone and not after.strip() else None
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
    is_initial = len(word) == 1 and "A" <= word <= "Z"
    if (is_initial and (after.isspace() or (after == "," and line[position + 2 : position + 3].isspace()))) or (
        word[-2:-1] == "." and _PERIOD_WITHIN.search(word)
    ):
        if word.endswith(_BEFORE_CAPITAL) or (word == "P.M" and line[position - 4 : position - 3] == " "):
            return _CAPITAL.match(line, position + 1) is not None
        return word.endswith(_BEFORE_STARTER) and _STARTER.match(line, position + 1) is not None
    if after == "'" and line.startswith("s", position + 2) and not line[position + 3 : position + 4].strip():
        return False
    if position < 3 and after.isspace() and line[:position].isdecimal():
        return not line[position + 2 : position + 3].strip()
    rule = _abbreviations().get(word.lower())
    return rule is None or rule.match(line, position + 1) is None


def _ends(line: str, start: int, position: int, marks: str) -> bool | None:
    """The same as ``_full_stop_ends`` for other marks."""
    end = position + len(marks)
    before, after = line[position - 1 : position], line[end : end + 1]
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
    if marks.strip(".") or marks == "..":
        return None
    end = position + len(marks)
    before, after = line[position - 1 : position], line[end : end + 1]
    word = _word_before(line, position)
    if before.isdecimal() or after.isdecimal() or after == "[" or "." in word or word.lower() in _abbreviations():
        return None
    if marks == "...":
        return _CAPITAL_SOMEWHERE.match(line, end) is not None
    if not before or before.isspace() or len(marks) != 4:
        return None
    return True if not after or _CAPITAL.match(line, end) or not _CAPITAL_SOMEWHERE.match(line, end) else None


def _opening_end(line: str, start: int, spans: dict[int, int], last_closing: dict[str, int]) -> tuple[int, bool]:
    """Where a quotation or aside at ``start`` becomes a sentence of its own, or might, and whether that is certain."""
    opening = line[start : start + 1]
    if opening not in _CLOSING:
        return start, True
    if opening not in last_closing:  # one search per line: repeated searches that find nothing are quadratic
        last_closing[opening] = line.rfind(_CLOSING[opening])
    if start >= last_closing[opening]:
        return start, True
    end = spans.get(start)
    if end is None or opening == "'" or line.startswith(opening, end) or _ROMAN_IN_PARENTHESES.match(line, start, end):
        return line.find(_CLOSING[opening], start + 1) + 1, False
    if end - start < (4 if opening == "(" else 3) or (opening != "(" and line[end - 2] == ","):
        return start, True
    return (end + 1 if _CAPITAL.match(line, end) else start), True


def _cut_at_quotation_ends(sentence: str) -> list[tuple[str, bool]]:
    """pysbd splits its sentences once more, after a mark and a quotation mark before a capital."""
    pieces, start = [], 0
    for match in _QUOTATION_END.finditer(sentence):
        if "'" in match[0]:
            return [(sentence, False)]  # not within other quotation marks or brackets
        pieces.append((sentence[start : match.end()], True))
        start = match.end()
    return [*pieces, (sentence[start:], True)]


def _holds_list(line: str) -> bool:
    periods = []
    if line.count(".") > 1:
        periods = [match.start() for match in _ITEM_WITH_PERIOD.finditer(f" {line}")]
    if len(periods) > 1:
        items = [line[max(position - 3, 0) : position - 1].split()[-1].strip("-⁃") for position in periods]
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
    places = [alphabet.index(item) for item in items if item in alphabet]
    return any(abs(a - b) == 1 for a, b in zip(places, places[1:] + places[:1], strict=True))


def _is_numbered(numbers: list[int]) -> bool:
    return any(b == a + 1 or {a, b} == {0, 9} for a, b in itertools.pairwise(numbers))


def _holds_exclamation_word_or_aside(line: str) -> bool:
    if "!" in line and _EXCLAMATION_WORD.search(line):
        return True
    aside = _ASIDE_AFTER_QUOTATION.search(line) if "(" in line else None
    return aside is not None and _ASIDE_BEFORE_QUOTATION.search(line, aside.end()) is not None


def _word_before(line: str, position: int) -> str:
    return (line[max(position - _LONGEST_WORD, 0) : position].rsplit(None, 1) or [""])[-1]


def _is_word_character(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


@functools.cache
def _abbreviations() -> dict[str, re.Pattern[str]]:
    from pysbd.languages import LANGUAGE_CODES

    lists = LANGUAGE_CODES["en"].Abbreviation
    rules = dict.fromkeys(lists.ABBREVIATIONS, _AFTER_ABBREVIATION)
    rules |= dict.fromkeys(lists.NUMBER_ABBREVIATIONS, _AFTER_NUMBER_WORD)
    return rules | dict.fromkeys(lists.PREPOSITIVE_ABBREVIATIONS, _AFTER_TITLE)


def find_protected_spans(line: str) -> dict[int, int]:
    """The end of each span in which pysbd splits at no mark, by its start. Those of different kinds may overlap."""
    spans: dict[int, int] = {}
    for opening, closing, pattern in _SPANS:
        # Without an apostrophe before white space pysbd takes them all for leading ones, as in 'tis.
        if opening in line and (opening != "'" or _APOSTROPHE_BEFORE_SPACE.search(line)):
            found = pattern.finditer(line, 0, line.rfind(closing) + len(closing))
            spans.update(match.span() for match in found if match.lastindex)
    return spans


def merge_spans(spans: dict[int, int]) -> list[tuple[int, int]]:
    """Start and end of spans in order; those that nest or overlap are merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans.items()):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
