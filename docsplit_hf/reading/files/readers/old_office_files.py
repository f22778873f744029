"""Read files of Word and PowerPoint 97 to 2003 (.doc, .ppt) with xberg, if it is installed."""

from __future__ import annotations

import asyncio

from ..failures import OLD_FORMAT, Refusal
from ..parts import Budget, Content

WORD_97 = "application/msword"
POWERPOINT_97 = "application/vnd.ms-powerpoint"


def read_old_office(content: bytes, budget: Budget, kind: str) -> Content:
    """Read a file as one text: without OCR, a cache, or what changes the text."""
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
