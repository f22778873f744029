"""The parts of an English line, in quotation marks, brackets or dashes, within which pysbd ends no sentence."""

from __future__ import annotations

import re

# Within parentheses, brackets and double quotation marks pysbd means to allow escaped characters, but its pattern takes
# only a span of one unit: no backslash at all, or one escaped character and nothing else.
_PARENTHESES = re.compile(r"\((?:[^()\\]+|\\[^()])\)")
_PAIRS = ('""', "[]", "“”", "«»")
_DASHES = re.compile(r"--[^-]*--")
# Single quotation marks open after white space and close where no letter follows.
_SINGLE = (
    ("'", "'", re.compile(r"(?<=\s)'"), re.compile(r"'(?![a-zA-Z])")),
    ("‘", "’", re.compile(r"(?<=\s)‘"), re.compile(r"’(?![a-zA-Z])")),
)
_APOSTROPHE_BEFORE_SPACE = re.compile(r"'[^\S\r\n]")


def find_protected_spans(line: str) -> dict[int, int]:
    """The end of each span in which pysbd splits at no mark by its start, both marks included, in linear time.

    ``line`` has no line end but at its end. Each kind of span is found by itself, from left to right, so spans of
    different kinds may nest or overlap.
    """
    spans: dict[int, int] = {}
    if "(" in line:
        spans.update(match.span() for match in _PARENTHESES.finditer(line))
    if "--" in line:
        spans.update(match.span() for match in _DASHES.finditer(line))
    for opening, closing in _PAIRS:
        if opening in line:
            _add_pairs(spans, line, opening, closing)
    for opening, closing, opens, closes in _SINGLE:
        # Without an apostrophe before white space pysbd takes them all for leading ones, as in 'tis.
        if opening in line and (opening != "'" or _APOSTROPHE_BEFORE_SPACE.search(line)):
            _add_single(spans, line, closing, opens, closes)
    return spans


def merge_spans(spans: dict[int, int]) -> list[tuple[int, int]]:
    """Start and end of spans in order, where those that nest or overlap are merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans.items()):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _add_pairs(spans: dict[int, int], line: str, opening: str, closing: str) -> None:
    start, end = line.find(opening), -1
    while start >= 0:
        # What was found for an earlier start is kept: to look again would take quadratic time.
        if end <= start and (end := line.find(closing, start + 1)) < 0:
            return
        backslash = line.find("\\", start + 1, end)
        if backslash >= 0 and (backslash, end) != (start + 1, start + 3):
            start = line.find(opening, max(start + 1, backslash - 1))
        elif end == start + 1:
            start = line.find(opening, start + 1)  # an empty span is none: of "" the second one opens
        else:
            spans[start] = end + 1
            start = line.find(opening, end + 1)


def _add_single(
    spans: dict[int, int], line: str, closing: str, opens: re.Pattern[str], closes: re.Pattern[str]
) -> None:
    opened = opens.search(line)
    while opened:
        closed = closes.search(line, opened.end())
        end = closed.end() if closed else line.rfind(closing) + 1  # pysbd goes back to the last apostrophe
        if end <= opened.end():
            return
        spans[opened.start()] = end
        opened = opens.search(line, end)
