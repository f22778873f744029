"""Read files of Word and PowerPoint 97 to 2003 (.doc, .ppt) with xberg, if it is installed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from .failures import OLD_FORMAT, Refusal
from .parts import Budget, Content, Part
from .places import SLIDE

WORD_97 = "application/msword"
POWERPOINT_97 = "application/vnd.ms-powerpoint"


class Node(NamedTuple):
    """A part of a document as xberg gives it: the kind, the number of a slide, and the text."""

    kind: str
    number: int
    text: str


def read_doc(content: bytes, budget: Budget) -> Content:
    """Read a Word file as one text: its pages are not saved in it."""
    document = _extract(content, WORD_97)
    budget.take_bytes(len(document.content))
    return Content(parts=[Part("", "", document.content)])


def read_ppt(content: bytes, budget: Budget) -> Content:
    """Read a PowerPoint file slide by slide, each with its notes; what is on none comes first."""
    document = _extract(content, POWERPOINT_97)
    budget.take_bytes(len(document.content))
    name = ""
    texts_of: dict[str, list[str]] = {}
    titles: dict[str, str] = {}
    for node in _nodes(document):
        if node.kind == "slide":
            budget.take_pages(1)
            name = str(node.number)
            titles[name] = node.text
        texts = texts_of.setdefault(name, [])
        if node.kind != "slide" and node.text:
            texts.append(node.text)
    parts = [_slide(name, titles.get(name, ""), texts) for name, texts in texts_of.items()]
    return Content(parts=parts)


def _slide(name: str, title: str, texts: list[str]) -> Part:
    """A slide with its title, which xberg may give once more as a text."""
    text = "\n".join(texts)
    if "".join(title.split()) not in "".join(text.split()):
        text = f"{title}\n{text}"
    return Part(kind=SLIDE if name else "", name=name, text=text)


def _extract(content: bytes, kind: str) -> Any:
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
        include_document_structure=kind == POWERPOINT_97,
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
    )
    [document] = asyncio.run(xberg.extract(given, config)).results
    return document


def _nodes(document: Any) -> Iterator[Node]:
    """The slides and texts of a document, in their order."""
    if document.document is None:
        return
    for node in document.document.nodes:
        fields = json.loads(str(node.content))
        text = fields.get("text") or fields.get("title") or ""
        yield Node(kind=fields["node_type"], number=fields.get("number", 0), text=text)
