"""Read .csv files as pandas does, which a small installation lacks, and guard cells that a spreadsheet would run."""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

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

csv.field_size_limit(sys.maxsize)  # by default, fields of more than 131,072 characters are refused


def csv_records(file: TextIO, separator: str) -> Iterator[dict[str, str]]:
    """Read all rows as texts; a row with fewer fields than the header gets empty ones.

    Raises:
        ValueError: If a row has more fields than the header, or a quotation mark is not closed.
    """
    reader = csv.reader(file, delimiter=separator, strict=True)
    names: list[str] = []
    try:
        for fields in reader:
            is_blank = len(fields) == 1 and fields[0] != "" and not fields[0].strip(" \t")
            if not fields or is_blank:  # lines that pandas skips
                continue
            if not names:
                names = _names(fields)
                continue
            if len(fields) > len(names):
                raise ValueError(
                    f"Expected {len(names)} fields in line {reader.line_num}, saw {len(fields)}: its rows have more "
                    "fields than its header: quote texts that hold the separator"
                )
            yield dict(zip(names, fields + [""] * (len(names) - len(fields)), strict=True))
    except csv.Error as error:
        reason = "EOF inside string" if "unexpected end" in str(error) else str(error)
        raise ValueError(f"{reason}, at line {reader.line_num}") from error


def _names(fields: list[str]) -> list[str]:
    """Names of columns; the second "a" is "a.1", and an empty one has its number."""
    given = [name or f"Unnamed: {number}" for number, name in enumerate(fields)]
    counts: Counter[str] = Counter()
    names = []
    for name in given:
        unique = name
        while counts[name] and (unique := f"{name}.{counts[name]}") in given:
            counts[name] += 1
        counts[name] += 1
        names.append(unique)
    return names


def harmless_cell(text: str) -> str:
    """Put an apostrophe before anything that a spreadsheet would run as a formula. Numbers are unchanged."""
    return text if _NUMBER.fullmatch(text) else _TO_GUARD.sub("'", text)


def original_cell(text: str) -> str:
    """Undo ``harmless_cell``."""
    return _GUARDED.sub("", text)
