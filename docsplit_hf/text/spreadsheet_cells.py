"""Cells of CSV files that a spreadsheet would run as formulas: made harmless, and read back as they were."""

from __future__ import annotations

import re

# The header of an empty last column, in files in which a cell was made harmless. It tells the reader to undo that:
# elsewhere, an apostrophe before "=" belongs to the text. It is a column because a spreadsheet keeps columns when it
# saves the file again.
MARKER = "safe_csv: a ' stands before = + - @"

# What OWASP says of "CSV injection". A spreadsheet for which columns end at ";" or at a tab, as in most of Europe,
# takes no notice of our commas and quotes: to it, a cell also begins after those, and after the end of a line, and a
# doubled quote may be one that opens the cell.
_CELL_BEGINS = r"(?:\A|(?<=[;\t\r\n]))"
_FORMULA = r"(?:[^\S\t\r\n]|\")*[=+\-@＝＋－＠]"
_TO_GUARD = re.compile(rf"\A(?='*[\t\r\n])|{_CELL_BEGINS}(?='*{_FORMULA})")
_GUARDED = re.compile(rf"(?:\A(?='+[\t\r\n])|{_CELL_BEGINS}(?='+{_FORMULA}))'")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9][0-9.,]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?%?|inf)")


def harmless_cell(text: str) -> str:
    """A text that no spreadsheet runs: an apostrophe stands before what begins a formula. Numbers stay numbers."""
    return text if _NUMBER.fullmatch(text) else _TO_GUARD.sub("'", text)


def original_cell(text: str) -> str:
    """The text that ``harmless_cell`` was given: one apostrophe less, before what begins a formula."""
    return _GUARDED.sub("", text)
