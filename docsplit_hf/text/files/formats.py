"""Find the format of a file from its content, and read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath

from .failures import EMPTY, UNKNOWN_FORMAT, Refusal
from .html_text import text_of_html
from .options import FileOptions
from .parts import Budget, Content, Part, join_parts
from .pdf_pages import read_pdf
from .places import Changes, FileText
from .plain_text import decode_text

BYTES_OF_HEADER = 1024  # in which PDF files begin, as PDF readers have it
HTML_SUFFIXES = (".html", ".htm", ".xhtml")
TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".rst")
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]", re.I | re.S)


def format_of(content: bytes, name: str) -> str:
    """Name the format of a file by its content; the ending of the name decides between kinds of text only."""
    suffix = PurePath(name).suffix.lower()
    if b"%PDF-" in content[:BYTES_OF_HEADER]:
        return "pdf"
    if not _is_text(content):
        raise Refusal(UNKNOWN_FORMAT)
    if suffix in TEXT_SUFFIXES:
        return "text"
    if suffix in HTML_SUFFIXES or _HTML.match(content[:BYTES_OF_HEADER].lstrip(b"\xef\xbb\xbf")):
        return "html"
    return "text"


def read_content(content: bytes, name: str, budget: Budget) -> Content:
    """Read the parts of a file."""
    if not content.strip():
        raise Refusal(EMPTY)
    return READERS[format_of(content, name)](content, budget)


def read_text(content: bytes, name: str, options: FileOptions) -> FileText:
    """Read the text of a file with its places; raise ``Refusal``."""
    found = read_content(content, name, Budget(options))
    return join_parts(found.parts, found.changes, options)


def _read_plain(content: bytes, budget: Budget) -> Content:
    """Read plain text."""
    text, replaced = decode_text(content, budget.options)
    return Content(parts=[Part("", "", text)], changes=Changes(replaced_characters=replaced))


def _read_html(content: bytes, budget: Budget) -> Content:
    """Read a page of HTML, in the encoding that it declares."""
    text, replaced = decode_text(content, budget.options)
    return Content(parts=[Part("", "", text_of_html(text))], changes=Changes(replaced_characters=replaced))


READERS: Mapping[str, Callable[[bytes, Budget], Content]] = {
    "pdf": read_pdf,
    "html": _read_html,
    "text": _read_plain,
}


def _is_text(content: bytes) -> bool:
    """Whether content can be text: without zero bytes, or with the byte order mark of UTF-16 or UTF-32."""
    return b"\x00" not in content[:65_536] or content[:2] in (b"\xff\xfe", b"\xfe\xff")
