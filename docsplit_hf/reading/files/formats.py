"""Find the format of a file from its content, and read it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath, PurePosixPath

from .failures import (
    DAMAGED,
    EMPTY,
    ENCRYPTED,
    NESTED_TOO_DEEP,
    SCANNED,
    TOO_MANY_PAGES,
    UNKNOWN_FORMAT,
    UNPACKS_TOO_LARGE,
    Refusal,
)
from .finding import HIDDEN, is_hidden
from .options import FileOptions
from .parts import Budget, Content, Inner, Part, join_parts
from .places import PART, FileText, LeftOut
from .readers.html_text import text_of_html
from .readers.mails import PGP_MESSAGE, read_eml
from .readers.office_files import read_docx, read_epub, read_open_document, read_pptx, read_word_xml
from .readers.old_office_files import POWERPOINT_97, WORD_97, read_old_office
from .readers.outlook_mails import open_ole, read_msg
from .readers.pdf_pages import read_pdf
from .readers.plain_text import MARKS, decode_html, decode_text
from .readers.sheets import read_sheets
from .readers.zip_files import ZipMembers

BYTES_OF_HEADER = 1024  # in which PDF files begin, as PDF readers have it
BYTES_OF_TEXT = 65_536  # in which text has no zero byte
BYTES_OF_SMIME = 32  # in which the kind of its content is named
DEEPEST = 3  # files in one another: a document, in a zip file, attached to a mail
HTML_SUFFIXES = (".html", ".htm", ".xhtml", ".mhtml")
TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".rst")
OFFICE_FOLDERS = {"word/": "Word", "ppt/": "PowerPoint", "xl/": "spreadsheet"}
OPEN_DOCUMENT_TYPES = {
    b"application/vnd.oasis.opendocument.text": "OpenDocument",
    b"application/vnd.oasis.opendocument.presentation": "OpenDocument",
    b"application/vnd.oasis.opendocument.spreadsheet": "OpenDocument",
    b"application/epub+zip": "EPUB",
}
OLE_STREAMS = {
    "__properties_version1.0": "MSG",
    "Workbook": "spreadsheet",
    "Book": "spreadsheet",
    "WordDocument": "Word 97",
    "PowerPoint Document": "PowerPoint 97",
}
OLE_SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
PGP_SIGNATURE = b"-----BEGIN PGP SIGNATURE-----"
SMIME_SIGNED = b"\x06\x09*\x86H\x86\xf7\r\x01\x07\x02"  # object identifiers of RFC 5652
SMIME_ENCRYPTED = b"\x06\x09*\x86H\x86\xf7\r\x01\x07\x03"
UNFAMILIAR = "neither a document that is known nor text"
NOT_READ = {
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF8": "a picture (GIF)",
    b"II*\x00": "a picture (TIFF)",
    b"MM\x00*": "a picture (TIFF)",
    b"\x1f\x8b": "an archive (gzip)",
    b"7z\xbc\xaf": "an archive (7z)",
    b"Rar!": "an archive (RAR)",
    b"x\x9f>\x22": "a winmail.dat of Outlook (TNEF)",
    b"MZ": "a program",
    b"\x7fELF": "a program",
}
# Limits that hold for the whole file, so that a part which breaks them is not left out by itself.
LIMITS_OF_FILE = (UNPACKS_TOO_LARGE, TOO_MANY_PAGES, NESTED_TOO_DEEP)
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|meta|title|style|table|div)[\s>]",
    re.I | re.S,
)
_WORD_XML = re.compile(rb"\s*<\?xml[^>]*>\s*(?:<\?mso-application[^>]*>\s*)?<(?:w:wordDocument|pkg:package)\s")
_BINARY_WITHOUT_LENGTH = re.compile(r"\\bin(?![0-9a-z])")
_MAIL_HEADER = re.compile(rb"(From|To|Cc|Subject|Date|Message-ID|MIME-Version|Received|Return-Path):", re.I)
_MAILBOX = re.compile(rb"(?:\A|\n\r?\n)From \S+ [^\n]*\d\d:\d\d[^\n]*\n(?=[A-Za-z-]+: )")
_MAIL_OF_PARTS = re.compile(rb"(?:MIME-Version: *1\.0\s*)?Content-Type: *(?:multipart|message)/", re.I)


def read_text(content: bytes, name: str, options: FileOptions) -> FileText:
    """Read the text of a file with its places; raise ``Refusal``."""
    return join_parts(read_content(content, name, Budget(options)), options)


def read_content(content: bytes, name: str, budget: Budget, depth: int = 0) -> Content:
    """Read the parts of a file that is in ``depth`` others, and of the files in it."""
    if depth > DEEPEST:
        raise Refusal(NESTED_TOO_DEEP, f"more than {DEEPEST} files in one another")
    if not content.strip():
        raise Refusal(EMPTY)
    kind = format_of(content, name, budget)
    try:
        found = READERS[kind](content, budget)
    except Refusal as refusal:
        detail = f": {refusal.detail}" if refusal.detail else ""
        raise Refusal(refusal.reason, f"read as {kind}{detail}", refusal.pages_without_text) from refusal
    except (ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:  # libraries raise anything on a damaged file
        raise Refusal(DAMAGED, f"read as {kind}: {type(error).__name__}: {error}"[:300]) from error
    _read_inner(found, budget, depth)
    if not any(part.text.strip() for part in found.parts):
        first = "".join(f"; {part.name}: {part.reason}" for part in found.left_out[:1])
        pages = found.pages_without_text
        raise Refusal(SCANNED if pages else EMPTY, f"read as {kind}{first}", pages)
    return found


def format_of(content: bytes, name: str, budget: Budget) -> str:
    """Name the format of a file by its content; the ending of the name decides between kinds of text only."""
    suffix = PurePath(name).suffix.lower()
    if content.startswith(b"%PDF-"):
        return "PDF"
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _format_of_zip(ZipMembers(content, budget))
    if content.startswith(OLE_SIGNATURE):
        return _format_of_ole(content)
    if content.startswith(b"{\\rtf"):
        return "RTF"
    _refuse_signed_or_encrypted(content)
    is_plain = suffix in TEXT_SUFFIXES
    if not is_plain and _MAILBOX.match(content):
        return "mailbox"
    if not is_plain and _begins_as_mail(content):
        return "mail"
    # PDF files may begin after other bytes. A text that mentions them has no table of objects.
    if not is_plain and b"%PDF-" in content[:BYTES_OF_HEADER] and b"startxref" in content:
        return "PDF"
    if b"\x00" in content[:BYTES_OF_TEXT] and not any(content.startswith(mark) for mark, _ in MARKS):
        what = next((what for signature, what in NOT_READ.items() if content.startswith(signature)), UNFAMILIAR)
        raise Refusal(UNKNOWN_FORMAT, f"it is {what}")
    if is_plain:
        return "text"
    if suffix == ".eml":
        return "mail"
    begin = content[:BYTES_OF_HEADER].removeprefix(codecs.BOM_UTF8)
    if _WORD_XML.match(begin):
        return "Word 2003 XML"
    return "HTML" if suffix in HTML_SUFFIXES or _HTML.match(begin) else "text"


def _format_of_zip(members: ZipMembers) -> str:
    """The format of a zip file, from the names of its members."""
    if "mimetype" in members:
        found = OPEN_DOCUMENT_TYPES.get(members.read("mimetype").strip().removesuffix(b"-template"))
        if found is not None:
            return found
    if "[Content_Types].xml" in members:
        for folder, kind in OFFICE_FOLDERS.items():
            if any(info.filename.startswith(folder) for info in members.files):
                return kind
    return "zip"


def _format_of_ole(content: bytes) -> str:
    """The format of a file of Microsoft's old container, from the names of its streams."""
    file = open_ole(content)
    if file.exists("EncryptedPackage") or file.exists("EncryptionInfo"):
        raise Refusal(ENCRYPTED)
    for stream, kind in OLE_STREAMS.items():
        if file.exists(stream):
            return kind
    raise Refusal(UNKNOWN_FORMAT, "in Microsoft's old container")


def _refuse_signed_or_encrypted(content: bytes) -> None:
    """Refuse what PGP and S/MIME make: a signature, or a content that cannot be read here."""
    if content.startswith(PGP_MESSAGE.encode()) or SMIME_ENCRYPTED in content[:BYTES_OF_SMIME]:
        raise Refusal(ENCRYPTED)
    if content.startswith(PGP_SIGNATURE) or SMIME_SIGNED in content[:BYTES_OF_SMIME]:
        raise Refusal(UNKNOWN_FORMAT, "it is a signature, or signed as a whole")


def _begins_as_mail(content: bytes) -> bool:
    """Whether the first lines are headers of a mail: at least two of the usual ones, or those of a tree of parts."""
    if _MAIL_OF_PARTS.match(content):
        return True
    lines = content[:BYTES_OF_HEADER].splitlines()[:20]
    headers = [line for line in lines if _MAIL_HEADER.match(line)]
    return bool(lines) and bool(re.match(rb"[A-Za-z-]+: |From ", lines[0])) and len(headers) >= 2


def _read_inner(found: Content, budget: Budget, depth: int) -> None:
    """Read the files in a file as its parts; those that fail are left out and named."""
    for name, read in found.inner:
        try:
            budget.take_pages(1)
            inner = read_content(read(), name, budget, depth + 1)
        except Refusal as refusal:
            if refusal.reason in LIMITS_OF_FILE:
                raise
            found.left_out.append(LeftOut(name=name, reason=refusal.reason))
            found.pages_without_text += refusal.pages_without_text
            continue
        found.left_out.extend(part._replace(name=f"{name}, {part.name}") for part in inner.left_out)
        found.pages_without_text += inner.pages_without_text
        found.dropped_lines += inner.dropped_lines
        found.parts.extend(_part_in(name, part) for part in inner.parts)


def _part_in(name: str, part: Part) -> Part:
    """A part of a file in another one, with the names of both."""
    inner = f"{part.kind} {part.name}" if part.kind and part.kind != PART else part.name
    return Part(kind=PART, name=f"{name}, {inner}" if inner else name, text=part.text)


def _read_zip(content: bytes, budget: Budget) -> Content:
    """List the files in a zip file, without hidden ones."""
    members = ZipMembers(content, budget)
    found = Content()
    for info in members.files:
        folders = PurePosixPath(info.filename.replace("\\", "/")).parts
        if any(is_hidden(folder) for folder in folders if folder != ".."):
            found.left_out.append(LeftOut(name=info.filename, reason=HIDDEN))
        else:
            found.inner.append(Inner(name=info.filename, read=partial(members.read_file, info)))
    return found


def _read_mailbox(content: bytes, budget: Budget) -> Content:
    """List the mails of a mailbox, as Thunderbird and archives of lists have them."""
    found = list(_MAILBOX.finditer(content))
    ends = [match.start() for match in found[1:]] + [len(content)]
    mails = [content[match.end() : end] for match, end in zip(found, ends, strict=True)]
    inner = [Inner(f"mail {number}.eml", partial(bytes, mail)) for number, mail in enumerate(mails, start=1)]
    return Content(inner=inner)


def _read_plain(content: bytes, budget: Budget) -> Content:
    """Read plain text, with Markdown as it is."""
    return Content.of_text(decode_text(content, budget.options))


def _read_html(content: bytes, budget: Budget) -> Content:
    """Read a page of HTML."""
    return Content.of_text(text_of_html(decode_html(content, budget.options)))


def _read_rtf(content: bytes, budget: Budget) -> Content:
    """Read rich text; objects in it are not looked at."""
    from striprtf.striprtf import rtf_to_text

    text = _BINARY_WITHOUT_LENGTH.sub("", content.decode("latin-1"))  # at which the library fails
    return Content.of_text(rtf_to_text(text, errors="replace"))


READERS: Mapping[str, Callable[[bytes, Budget], Content]] = {
    "EPUB": read_epub,
    "HTML": _read_html,
    "MSG": read_msg,
    "OpenDocument": read_open_document,
    "PDF": read_pdf,
    "PowerPoint": read_pptx,
    "PowerPoint 97": partial(read_old_office, kind=POWERPOINT_97),
    "RTF": _read_rtf,
    "Word": read_docx,
    "Word 97": partial(read_old_office, kind=WORD_97),
    "Word 2003 XML": read_word_xml,
    "mail": read_eml,
    "mailbox": _read_mailbox,
    "spreadsheet": read_sheets,
    "text": _read_plain,
    "zip": _read_zip,
}
