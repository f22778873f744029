"""Options of reading files: limits, encoding, OCR."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ..characters import check_encoding

MEGABYTE = 1_000_000
TESSERACT = "tesseract"
RAPIDOCR = "rapidocr"
OCR_ENGINES = (TESSERACT, RAPIDOCR)
# A language for tesseract, or "rapidocr"; read where no options can be given, as by commands and pipelines.
OCR_VARIABLE = "DOCSPLIT_OCR"
DEFAULT_LANGUAGE = "eng"


def _engine_of_variable() -> str | None:
    """The engine that the variable asks for; None if it is not set."""
    value = os.environ.get(OCR_VARIABLE)
    if not value:
        return None
    return RAPIDOCR if value == RAPIDOCR else TESSERACT


def _language_of_variable() -> str:
    """The language that the variable asks for."""
    value = os.environ.get(OCR_VARIABLE)
    return DEFAULT_LANGUAGE if not value or value == RAPIDOCR else value


@dataclass(frozen=True)
class FileOptions:
    """Options of reading files.

    Attributes:
        ocr: What recognizes the text of scanned pages: ``"tesseract"``, a program, or ``"rapidocr"``, a library whose
            models come with it; None: nothing does. Default: None, unless the variable ``DOCSPLIT_OCR`` is set.
        ocr_language: The language for tesseract, as it names it. Default: the value of ``DOCSPLIT_OCR``, or English.
            rapidocr reads Latin letters, Chinese and Japanese without it.
        encoding: Encoding of plain text. None: by the byte order mark, otherwise UTF-8, otherwise guessed.
        max_bytes: Size of the largest file.
        max_unpacked_bytes: Largest size of the unpacked content of one file, over all levels.
        max_pages: Number of pages, sheets, slides or parts of the longest file.
        max_characters: Length of the longest text.
        seconds: Time for one file; each page that is recognized has four times as much.
        max_memory_bytes: Address space of a process that reads, where the system can limit it; rapidocr gets more.

    Raises:
        ValueError: If a limit is not positive, or there is no such engine for OCR.
    """

    ocr: str | None = field(default_factory=_engine_of_variable)
    ocr_language: str = field(default_factory=_language_of_variable)
    encoding: str | None = None
    max_bytes: int = 200 * MEGABYTE
    max_unpacked_bytes: int = 500 * MEGABYTE
    max_pages: int = 5_000
    max_characters: int = 20 * MEGABYTE
    seconds: float = 25.0
    max_memory_bytes: int = 1_000 * MEGABYTE

    def __post_init__(self) -> None:
        """Refuse limits that no file keeps, and unknown names."""
        limits = ("max_bytes", "max_unpacked_bytes", "max_pages", "max_characters", "seconds", "max_memory_bytes")
        for name in limits:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}.")
        if self.ocr is not None and self.ocr not in OCR_ENGINES:
            raise ValueError(f"ocr must be one of {OCR_ENGINES} or None, got {self.ocr!r}.")
        check_encoding(self.encoding)
