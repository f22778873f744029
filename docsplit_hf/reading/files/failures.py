"""Reasons for which a file is not read, each with its remedy."""

from __future__ import annotations

from typing import NamedTuple, Self

from ..characters import replace_lone_surrogates

ENCRYPTED = "encrypted"
DAMAGED = "damaged"
EMPTY = "empty"
SCANNED = "scanned, without text"
UNKNOWN_FORMAT = "unknown format"
OLD_FORMAT = "old binary format"
TOO_LARGE = "too large"
TOO_MANY_PAGES = "too many pages"
UNPACKS_TOO_LARGE = "unpacks to too much"
NESTED_TOO_DEEP = "nested too deep"
XML_ENTITIES = "declares XML entities"
TIMED_OUT = "took too long"
TOO_MUCH_MEMORY = "took too much memory"
CRASHED = "crashed its reader"
NOT_A_FILE = "not a regular file"
NOT_ACCESSIBLE = "not accessible"
MISSING_LIBRARY = "needs a library"
MISSING_PROGRAM = "needs a program"

REMEDIES = {
    ENCRYPTED: "Save a copy without a password, for example with qpdf --decrypt.",
    DAMAGED: "Open it in its program and save it again, or get another copy.",
    EMPTY: "It holds no text: check whether it is the right file.",
    SCANNED: (
        "It needs OCR: run ocrmypdf on it. Or: --ocr for a command, if tesseract is installed, --ocr rapidocr with the "
        "extra ocr, the box on the page, DOCSPLIT_OCR=eng or DOCSPLIT_OCR=rapidocr for others."
    ),
    UNKNOWN_FORMAT: "Convert it to PDF, DOCX or plain text, or leave it out.",
    OLD_FORMAT: (
        'Install what reads it: pip install -e ".[old-files]" (in the clone of docsplit_hf). Or save it as .docx or '
        ".pptx, for example with soffice --headless --convert-to docx."
    ),
    TOO_LARGE: "Split it, or raise max_bytes or max_characters.",
    TOO_MANY_PAGES: "Split it, or raise max_pages.",
    UNPACKS_TOO_LARGE: "It may be a zip bomb. If you trust it, raise max_unpacked_bytes, or unpack it yourself.",
    NESTED_TOO_DEEP: "Unpack the archives or mails in it, and read those files.",
    XML_ENTITIES: "No office program writes them, and they can be an attack. If you trust it, save it again.",
    TIMED_OUT: "If you trust it, raise seconds.",
    TOO_MUCH_MEMORY: "If you trust it, raise max_memory_bytes.",
    CRASHED: "It may be damaged: open it in its program and save it again.",
    NOT_A_FILE: "Give regular files: links that leave the folder, devices and pipes are not read.",
    NOT_ACCESSIBLE: "Check whether the file exists, and its permissions.",
    MISSING_LIBRARY: 'Install the extra: pip install -e ".[files]" (in the clone of docsplit_hf); rapidocr: ".[ocr]".',
    MISSING_PROGRAM: "Install it (tesseract: apt install tesseract-ocr), or leave OCR out.",
}
# Reasons that may be another's fault than the file's, such as a busy machine: the file is read again the next time.
NOT_KEPT = (
    TIMED_OUT,
    TOO_MUCH_MEMORY,
    CRASHED,
    NOT_A_FILE,
    NOT_ACCESSIBLE,
    MISSING_LIBRARY,
    MISSING_PROGRAM,
    OLD_FORMAT,
)


class FailedFile(NamedTuple):
    """A file that was not read.

    Attributes:
        file: The path, as it was given.
        reason: One of the reasons in ``docsplit_hf.reading.files.failures``.
        remedy: What to do about it.
        detail: What exactly was found; may be empty.
        pages_without_text: Pages with a picture and no text, for OCR.
    """

    file: str
    reason: str
    remedy: str
    detail: str = ""
    pages_without_text: int = 0


class UnreadableFile(ValueError):  # noqa: N818
    """A file that cannot be read; with its path, the reason, the remedy and the details."""

    def __init__(self, file: str, reason: str, remedy: str, detail: str = "") -> None:
        super().__init__(file, reason, remedy, detail)
        self.file = file
        self.reason = reason
        self.remedy = remedy
        self.detail = detail

    @classmethod
    def of(cls, failed: FailedFile) -> Self:
        """Make the exception for a file that was not read."""
        return cls(failed.file, failed.reason, failed.remedy, failed.detail)

    def __str__(self) -> str:
        """The message."""
        file = replace_lone_surrogates(self.file)
        return f"{file} is not read: {self.reason}{f' ({self.detail})' if self.detail else ''}. {self.remedy}"


class Refusal(Exception):  # noqa: N818
    """Raised by the reader of a format, which has no path to name."""

    def __init__(self, reason: str, detail: str = "", pages_without_text: int = 0) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.pages_without_text = pages_without_text


def failed_file(file: str, reason: str, detail: str = "", pages_without_text: int = 0) -> FailedFile:
    """Describe a failure with the remedy of its reason."""
    return FailedFile(file, reason, REMEDIES[reason], detail, pages_without_text)
