"""Find the format of a file from its content, and read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath, PurePosixPath

from .failures import (
    EMPTY,
    ENCRYPTED,
    NESTED_TOO_DEEP,
    OLD_FORMAT,
    TOO_MANY_PAGES,
    UNKNOWN_FORMAT,
    UNPACKS_TOO_LARGE,
    Refusal,
)
from .finding import HIDDEN, is_hidden
from .html_text import text_of_html
from .mails import ATTACHMENT, Mails, read_eml, read_msg
from .office_files import read_docx, read_epub, read_open_document, read_pptx
from .options import FileOptions
from .parts import Budget, Content, Part, add_changes, join_parts
from .pdf_pages import read_pdf
from .places import PART, Changes, FileText, LeftOut
from .plain_text import MARKS, decode_html, decode_text
from .sheets import read_sheets
from .zip_files import ZipMembers

BYTES_OF_HEADER = 1024  # in which PDF files begin, as PDF readers have it
BYTES_OF_TEXT = 65_536  # in which text has no zero byte
DEEPEST = 3  # files in one another: a document, in a zip file, attached to a mail
HTML_SUFFIXES = (".html", ".htm", ".xhtml", ".mhtml")
TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".rst")
OFFICE_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "sheets"}
OPEN_DOCUMENT_TYPES = {
    b"application/vnd.oasis.opendocument.text": "open document",
    b"application/vnd.oasis.opendocument.presentation": "open document",
    b"application/vnd.oasis.opendocument.spreadsheet": "open document",
    b"application/epub+zip": "epub",
}
OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Limits that hold for the whole file, so that a part which breaks them is not left out by itself.
LIMITS_OF_FILE = (UNPACKS_TOO_LARGE, TOO_MANY_PAGES, NESTED_TOO_DEEP)
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]", re.I | re.S)
_BINARY_WITHOUT_LENGTH = re.compile(r"\\bin(?![0-9a-z])")
_MAIL_HEADER = re.compile(rb"(From|To|Cc|Subject|Date|Message-ID|MIME-Version|Received|Return-Path):", re.I)


def read_text(content: bytes, name: str, options: FileOptions) -> FileText:
    """Read the text of a file with its places; raise ``Refusal``."""
    found = read_content(content, name, Budget(options))
    return join_parts(found.parts, found.changes, options)


def read_content(content: bytes, name: str, budget: Budget, depth: int = 0) -> Content:
    """Read the parts of a file that is in ``depth`` others."""
    if depth > DEEPEST:
        raise Refusal(NESTED_TOO_DEEP, f"more than {DEEPEST} files in one another")
    if not content.strip():
        raise Refusal(EMPTY)
    kind = format_of(content, name, budget)
    if kind == "zip":
        members = ZipMembers(content, budget)
        return _read_inner([], members.names, members.read, budget, depth)
    if kind in MAIL_READERS:
        mails = MAIL_READERS[kind](content, budget)
        contents = {f"{ATTACHMENT}: {inner.name}": inner.content for inner in mails.attached}
        return _read_inner(mails.parts, list(contents), contents.__getitem__, budget, depth)
    return READERS[kind](content, budget)


def format_of(content: bytes, name: str, budget: Budget) -> str:
    """Name the format of a file by its content; the ending of the name decides between kinds of text only."""
    suffix = PurePath(name).suffix.lower()
    if b"%PDF-" in content[:BYTES_OF_HEADER]:
        return "pdf"
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _format_of_zip(ZipMembers(content, budget))
    if content.startswith(OLE_SIGNATURE):
        return _format_of_ole(content)
    if content.startswith(b"{\\rtf"):
        return "rtf"
    if b"\x00" in content[:BYTES_OF_TEXT] and not any(content.startswith(mark) for mark, _ in MARKS):
        raise Refusal(UNKNOWN_FORMAT, "it is neither a document that is known nor text")
    if suffix in TEXT_SUFFIXES:
        return "text"
    if suffix == ".eml" or _begins_as_mail(content):
        return "eml"
    if suffix in HTML_SUFFIXES or _HTML.match(content[:BYTES_OF_HEADER].removeprefix(b"\xef\xbb\xbf")):
        return "html"
    return "text"


def _format_of_zip(members: ZipMembers) -> str:
    """The format of a zip file, from the names of its members."""
    if "mimetype" in members:
        found = OPEN_DOCUMENT_TYPES.get(members.read("mimetype").strip().removesuffix(b"-template"))
        if found is not None:
            return found
    if "[Content_Types].xml" in members:
        for folder, kind in OFFICE_FOLDERS.items():
            if any(name.startswith(folder) for name in members.names):
                return kind
    return "zip"


def _format_of_ole(content: bytes) -> str:
    """The format of a file of Microsoft's old container, from the names of its streams."""
    import io

    import olefile

    with olefile.OleFileIO(io.BytesIO(content)) as file:
        if file.exists("EncryptedPackage") or file.exists("EncryptionInfo"):
            raise Refusal(ENCRYPTED)
        if file.exists("__properties_version1.0"):
            return "msg"
        if file.exists("Workbook") or file.exists("Book"):
            return "sheets"
        if file.exists("WordDocument") or file.exists("PowerPoint Document"):
            raise Refusal(OLD_FORMAT, "of Word or PowerPoint 97")
    raise Refusal(UNKNOWN_FORMAT, "in Microsoft's old container")


def _begins_as_mail(content: bytes) -> bool:
    """Whether the first lines are headers of a mail, at least two of the usual ones."""
    lines = content[:BYTES_OF_HEADER].splitlines()[:20]
    headers = [line for line in lines if _MAIL_HEADER.match(line)]
    return bool(lines) and bool(re.match(rb"[A-Za-z-]+: |From ", lines[0])) and len(headers) >= 2


def _read_inner(
    parts: list[Part], names: Sequence[str], read: Callable[[str], bytes], budget: Budget, depth: int
) -> Content:
    """Read files in a file as its parts, after other parts; those that fail are left out and named."""
    changes = Changes()
    left_out: list[LeftOut] = []
    for name in names:
        folders = PurePosixPath(name.replace("\\", "/")).parts
        if any(is_hidden(folder) for folder in folders if folder != ".."):
            left_out.append(LeftOut(name=name, reason=HIDDEN))
            continue
        try:
            budget.take_pages(1)
            content = read(name)
            budget.take_bytes(len(content))
            inner = read_content(content, name, budget, depth + 1)
        except Refusal as refusal:
            if refusal.reason in LIMITS_OF_FILE:
                raise
            left_out.append(LeftOut(name=name, reason=refusal.reason))
            continue
        except (ModuleNotFoundError, MemoryError):
            raise
        except Exception as error:  # libraries raise anything on a damaged file
            left_out.append(LeftOut(name=name, reason=f"damaged ({type(error).__name__})"))
            continue
        changes = add_changes(changes, inner.changes)
        parts.extend(_part_in(name, part) for part in inner.parts)
    if left_out and not any(part.text.strip() for part in parts):
        raise Refusal(EMPTY, f"none of {len(names)} parts can be read; {left_out[0].name}: {left_out[0].reason}")
    return Content(parts=parts, changes=changes._replace(left_out=(*changes.left_out, *left_out)))


def _part_in(name: str, part: Part) -> Part:
    """A part of a file in another one, with the names of both."""
    inner = f"{part.kind} {part.name}" if part.kind and part.kind != PART else part.name
    return Part(kind=PART, name=f"{name}, {inner}" if inner else name, text=part.text)


def _read_plain(content: bytes, budget: Budget) -> Content:
    """Read plain text, with Markdown as it is."""
    text, replaced = decode_text(content, budget.options)
    return Content(parts=[Part("", "", text)], changes=Changes(replaced_characters=replaced))


def _read_html(content: bytes, budget: Budget) -> Content:
    """Read a page of HTML."""
    text, replaced = decode_html(content, budget.options)
    return Content(parts=[Part("", "", text_of_html(text))], changes=Changes(replaced_characters=replaced))


def _read_rtf(content: bytes, budget: Budget) -> Content:
    """Read rich text; objects in it are not looked at."""
    from striprtf.striprtf import rtf_to_text

    text = _BINARY_WITHOUT_LENGTH.sub("", content.decode("latin-1"))  # at which the library fails
    text = rtf_to_text(text, errors="replace")
    return Content(parts=[Part("", "", text)])


READERS: Mapping[str, Callable[[bytes, Budget], Content]] = {
    "docx": read_docx,
    "epub": read_epub,
    "html": _read_html,
    "open document": read_open_document,
    "pdf": read_pdf,
    "pptx": read_pptx,
    "rtf": _read_rtf,
    "sheets": read_sheets,
    "text": _read_plain,
}
MAIL_READERS: Mapping[str, Callable[[bytes, Budget], Mails]] = {"eml": read_eml, "msg": read_msg}
