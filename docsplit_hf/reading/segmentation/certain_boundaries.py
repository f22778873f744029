"""Reimplement pysbd's common rules for English, to find in one scan the boundaries where pysbd is certain to split.

pysbd rewrites the whole text dozens of times to hide marks that do not end a sentence, and then splits at the others.
For most marks, the word before and the characters after the mark determine whether pysbd splits there. These cases are
taken from pysbd 0.3.4 and its lists; all others are uncertain, and left to pysbd.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator

_MARKS = re.compile(r"[.!?]+\s*")
# Characters with rules that are not covered here: marks of other scripts, pysbd's own placeholders, and line separators
# other than the line end.
_NOT_COVERED = re.compile("[。．！？（「\x0b\x0c\x1c-\x1f\x85\u2028\u2029∯♨☝☉☈☇☄ȸȹ☏ƪ♟♝∮♬♭ᓰᓱᓳᓴᓷᓸ✂⌬⎋]")
_EXCLAMATION_WORD_OR_ASIDE = re.compile(r"![XK]|Yahoo!|Y!J|Yum!|[\"”]\s\(")
# pysbd may treat a quotation or aside that opens a sentence as a sentence of its own. What follows one that is not
# protected is left to it.
_OPENING = ("(", '"', "“", "'")
_QUOTATION_END = re.compile(r"[!?.\-][\"'“”]\s(?=[A-Z])")

# Each pattern starts with a character that is fast to find, and then checks the characters before it.
_ITEM_WITH_PERIOD = re.compile(r"\.(?:(?<=\s[a-z]\.)|(?:(?<=[\s\-⁃]\d\.)|(?<=[\s\-⁃]\d\d\.))(?=[\s)]))")
_ITEM_WITH_PARENTHESIS = re.compile(r"(?<![^\s(])([a-z]|[ivx]{2,5})\)")
_NUMBERED_ITEM = re.compile(r"\s\d{1,2}\)\s")
_OTHERWISE_AT_START = re.compile(r"['‘.]|\d{1,2}[.)]|P\.M")

_LONGEST_WORD = 12  # characters to read before a mark: longer than any abbreviation
_WITHIN_WORD = re.compile(r"\w\.\w", re.ASCII)
_SMALL = re.compile(r"\s[a-z]")
_REFERENCE = re.compile(r"(?:\d{1,3}\s?)?\d{1,3}\s[A-Z]|\[\d")
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


# Spans in quotation marks, brackets or dashes, within which pysbd does not end a sentence: how they open and close, and
# a pattern, a match of which is a span if it has a group.
_SPANS = [
    ("(", ")", re.compile(_pair(r"\(", r"\)", r"\("), re.DOTALL)),
    ("--", "--", re.compile(r"(--[^-]*--)", re.DOTALL)),
    ('"', '"', re.compile(_pair('"', '"'), re.DOTALL)),
    ("[", "]", re.compile(_pair(r"\[", r"\]"), re.DOTALL)),
    ("“", "”", re.compile(_pair("“", "”"), re.DOTALL)),
    ("«", "»", re.compile(_pair("«", "»"), re.DOTALL)),
    # Single quotation marks open after white space, and close at the first mark not followed by a letter, otherwise
    # at the last mark.
    ("'", "'", re.compile(r"((?<=\s)'(?:.*?'(?![a-zA-Z])|.*'))", re.DOTALL)),
    ("‘", "’", re.compile(r"((?<=\s)‘(?:.*?’(?![a-zA-Z])|.*’))", re.DOTALL)),
]
_APOSTROPHE_BEFORE_SPACE = re.compile(r"'[^\S\r\n]")


def cut_at_certain_boundaries(line: str) -> list[tuple[str, bool]]:
    """Cut a line of English at the boundaries that pysbd certainly finds, in linear time.

    Returns pieces that join to the line, each with whether it is a single sentence; pysbd has to split the others.
    """
    if _NOT_COVERED.search(line) or _may_hold_list(line) or _EXCLAMATION_WORD_OR_ASIDE.search(line):
        return [(line, False)]
    pieces: list[tuple[str, bool]] = []
    start = 0
    is_sentence = True
    for end, is_boundary in itertools.chain(_boundaries(line), [(len(line), True)]):
        if not is_boundary:
            is_sentence = False
            continue
        # In a second pass, pysbd splits after a mark and a closing quotation mark before a capital.
        pieces.append((line[start:end], is_sentence and not _QUOTATION_END.search(line, start, end)))
        start = end
        is_sentence = True
    return pieces


def _boundaries(line: str) -> Iterator[tuple[int, bool]]:
    """Yield the boundaries within a line, by position, each with whether pysbd certainly splits there.

    If it does not, the text since the last certain boundary may contain any number of boundaries.
    """
    if not ("." in line or "?" in line or "!" in line):
        return
    spans = find_protected_spans(line)
    protected = iter([*merge_spans(spans), (len(line), len(line))])
    protected_from, protected_to = next(protected)  # the first protected span that ends after the current mark
    start = len(line) - len(line.lstrip())  # of the current sentence
    if line.startswith(_OPENING, start):
        yield start, False
        if start not in spans:
            return
    for match in _MARKS.finditer(line):
        position, end = match.span()
        while protected_to <= position:
            protected_from, protected_to = next(protected)
        marks = match[0].rstrip()
        if protected_from <= position:
            if marks[-1] == "." and _REFERENCE.match(line, position + len(marks)):
                yield end, False
                return  # pysbd splits there first, so that spans which opened before never close
            continue
        if marks == ".":
            is_boundary = _full_stop_ends(line, position)
        else:
            is_boundary = _other_marks_end(line, start, position, marks)
        if is_boundary is False or (is_boundary and end == len(line)):
            continue
        # At the start of a line, pysbd treats some texts differently: a number, for example, as the number of a list.
        is_certain = is_boundary and line[end - 1].isspace() and not _OTHERWISE_AT_START.match(line, end)
        yield end, bool(is_certain)
        start = end if is_boundary else start
        if line.startswith(_OPENING, end):
            yield end, False
            if end not in spans:
                return


def _full_stop_ends(line: str, position: int) -> bool | None:
    """Whether a single full stop at ``position`` ends a sentence; None if uncertain."""
    after = line[position + 1 : position + 2]
    before = line[position - 1 : position]
    if not before or before.isspace() or before in "°\\":
        return None
    if not after:
        return True
    if _WITHIN_WORD.match(line, position - 1) and line[position - 2 : position - 1] != ".":
        return False
    word = line[max(position - _LONGEST_WORD, 0) : position].rsplit(None, 1)[-1]
    is_number_at_start = position < 3 and line[:position].isdecimal()
    is_initial = word.endswith(".") or word[-2:-1] == "." or (len(word) == 1 and "A" <= word <= "Z")
    if after in "['" or after.isdecimal() or is_number_at_start or is_initial or word.endswith("Co"):
        return None
    if before.isdecimal() and not after.isspace():
        return False
    text_after = _abbreviations().get(word.lower())
    return text_after is None or text_after.match(line, position + 1) is None


def _other_marks_end(line: str, start: int, position: int, marks: str) -> bool | None:
    """Whether marks other than a single full stop end a sentence; None if uncertain."""
    end = position + len(marks)
    if "." in marks or len(marks) > 2 or position == start:
        return None
    if len(marks) == 1 and (line[end : end + 1] in ("'", '"') or (marks == "!" and _SMALL.match(line, end))):
        return False
    return None if marks == "!" and line.startswith(",", end) else True


def _may_hold_list(line: str) -> bool:
    """Whether a line may hold a list with numbers, letters or Roman numerals."""
    if line.count(".") > 1 and len(_ITEM_WITH_PERIOD.findall(f" {line}")) > 1:
        return True
    if line.count(")") < 2:
        return False
    return len(_ITEM_WITH_PARENTHESIS.findall(line)) > 1 or _NUMBERED_ITEM.search(line) is not None


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
