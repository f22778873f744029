"""Guard cells of CSV files that a spreadsheet would run as formulas, and restore them."""

from __future__ import annotations

import re

# Header of an empty last column in files with a guarded cell. The reader removes apostrophes only from these files:
# elsewhere, an apostrophe before "=" belongs to the text. A spreadsheet keeps the column when it saves the file again.
MARKER = "safe_csv: a ' stands before = + - @"

# Follows OWASP's page on CSV injection. A spreadsheet that separates columns by ";" or tabs, as in most of Europe,
# ignores the file's commas and quotes: for it, a cell also begins after ";", a tab or a line end, and may begin with a
# doubled quote.
_CELL_BEGINS = r"(?:\A|(?<=[;\t\r\n]))"
_FORMULA = r"(?:[^\S\t\r\n]|\")*[=+\-@＝＋－＠]"
_TO_GUARD = re.compile(rf"\A(?='*[\t\r\n])|{_CELL_BEGINS}(?='*{_FORMULA})")
_GUARDED = re.compile(rf"(?:\A(?='+[\t\r\n])|{_CELL_BEGINS}(?='+{_FORMULA}))'")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9][0-9.,]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?%?|inf)")


def harmless_cell(text: str) -> str:
    """Put an apostrophe before anything that a spreadsheet would run as a formula. Numbers are unchanged."""
    return text if _NUMBER.fullmatch(text) else _TO_GUARD.sub("'", text)


def original_cell(text: str) -> str:
    """Undo ``harmless_cell``."""
    return _GUARDED.sub("", text)
