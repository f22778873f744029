"""Read files of Word and PowerPoint 97 to 2003 (.doc, .ppt) with xberg, if it is installed."""

from __future__ import annotations

import asyncio

from ..failures import OLD_FORMAT, Refusal
from ..parts import Budget, Content

WORD_97 = "application/msword"
POWERPOINT_97 = "application/vnd.ms-powerpoint"


def read_doc(content: bytes, budget: Budget) -> Content:
    """Read a Word file as one text: its pages are not saved in it."""
    return _extract(content, WORD_97, budget)


def read_ppt(content: bytes, budget: Budget) -> Content:
    """Read a PowerPoint file as one text, slide by slide."""
    return _extract(content, POWERPOINT_97, budget)


def _extract(content: bytes, kind: str, budget: Budget) -> Content:
    """Read a file that is in memory: without OCR, a cache, or what changes the text."""
    try:
        import xberg
    except ModuleNotFoundError as error:
        raise Refusal(OLD_FORMAT, "xberg is not installed") from error
    given = xberg.ExtractInput(kind="bytes", bytes=content, mime_type=kind)
    config = xberg.ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        disable_ocr=True,
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
    )
    [document] = asyncio.run(xberg.extract(given, config)).results
    budget.take_bytes(len(document.content))
    return Content.of_text(document.content)
