"""Decode plain text."""

from __future__ import annotations

import codecs
import re

from ..failures import DAMAGED, Refusal
from ..options import FileOptions

BYTES_TO_GUESS_FROM = 100_000
BYTES_OF_DECLARATION = 1024  # in which the standard of HTML has the encoding
LAST_RESORT = "cp1252"
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?([A-Za-z0-9_.:-]+)""", re.IGNORECASE)


def decode_text(content: bytes, options: FileOptions) -> str:
    """Decode text; U+FFFD stands for what cannot be decoded."""
    if options.encoding is not None:
        try:
            return with_line_ends(content.decode(options.encoding))
        except UnicodeDecodeError as error:
            raise Refusal(DAMAGED, f"it is not in {options.encoding}: {error}") from error
    marked = next((encoding for mark, encoding in MARKS if content.startswith(mark)), None)
    try:
        return with_line_ends(content.decode(marked or "utf-8"))
    except UnicodeDecodeError:
        return with_line_ends(content.decode(marked or _guess_encoding(content), errors="replace"))


def decode_html(content: bytes, options: FileOptions) -> str:
    """Decode a page of HTML in the encoding that it declares, if it holds and no mark says another one."""
    declared = None if content.startswith(codecs.BOM_UTF8) else _DECLARED.search(content[:BYTES_OF_DECLARATION])
    if options.encoding is None and declared is not None:
        try:
            return with_line_ends(content.decode(declared[1].decode("ascii")))
        except (LookupError, UnicodeError):
            pass
    return decode_text(content, options)


def with_line_ends(text: str) -> str:
    """The text with line ends of one character, as Python reads files."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _guess_encoding(content: bytes) -> str:
    """The most probable encoding of text that is not UTF-8."""
    from charset_normalizer import from_bytes

    best = from_bytes(content[:BYTES_TO_GUESS_FROM]).best()
    return LAST_RESORT if best is None or best.encoding in ("utf_8", "ascii") else best.encoding
