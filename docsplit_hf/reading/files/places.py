"""The text of a file, and its places: the page, sheet, slide or part that each span of characters came from.

Texts and failures pass between processes, and into the cache, as JSON.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from .failures import FailedFile

PAGE = "page"
SHEET = "sheet"
SLIDE = "slide"
PART = "part"
KINDS = (PAGE, SHEET, SLIDE, PART)
EMBEDDED = "embedded in a document"  # a reason for which a file in a file is left out


class Place(NamedTuple):
    """A part of a text that came from one page, sheet, slide or part of a file.

    Attributes:
        kind: ``"page"``, ``"sheet"``, ``"slide"`` or ``"part"``.
        name: The number of a page or a slide, from 1, such as ``"12"``; the name of a sheet or a part, such as
            ``"attachment: offer.pdf"``.
        start: The first character of the text.
        end: The character after the last one.
    """

    kind: str
    name: str
    start: int
    end: int


class LeftOut(NamedTuple):
    """A part of a file that could not be read, such as an attachment, and the reason."""

    name: str
    reason: str


class FileText(NamedTuple):
    """The text of a file.

    Attributes:
        text: The text. A line end separates two places.
        places: The places, ascending, not overlapping and not empty. None for a format without pages or parts.
        left_out: Parts that could not be read, such as pages without text, with their reasons.
        pages_without_text: Pages with a picture and no text, for OCR, also those of files in the file.
        dropped_lines: Lines that were dropped, because they repeat at the top or bottom of most pages.
    """

    text: str
    places: tuple[Place, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    pages_without_text: int = 0
    dropped_lines: int = 0


def places_of_span(places: Sequence[Place], start: int, end: int) -> tuple[Place, ...]:
    """Return the places that share characters with a span of the text.

    Args:
        places: The places of a text, ascending and not overlapping.
        start: The first character of the span.
        end: The character after the last one. An empty span is in the place that holds its position.

    Returns:
        The places, ascending; none if the span is between places.
    """
    last = max(end, start + 1)
    first_place = bisect_right(places, start, key=lambda place: place.end)
    place_after = bisect_left(places, last, key=lambda place: place.start)
    return tuple(places[first_place:place_after])


def encode_result(digest: str, result: FileText | FailedFile) -> bytes:
    """Write a result as one line of JSON without the line end."""
    fields = result._asdict()
    content = {"digest": digest, **({"failure": fields} if isinstance(result, FailedFile) else fields)}
    # Names of files may have lone surrogates, which stand for bytes that are no UTF-8; json.loads takes them back.
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_result(line: bytes) -> tuple[str, FileText | FailedFile]:
    """Read a result; raise ``ValueError`` if it is none."""
    try:
        content = json.loads(line)
        digest = content.pop("digest")
        if "failure" in content:
            return digest, FailedFile(**content["failure"])
        places = tuple(Place(*values) for values in content.pop("places"))
        left_out = tuple(LeftOut(*values) for values in content.pop("left_out"))
        return digest, FileText(places=places, left_out=left_out, **content)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is not the text of a file: {error!r}") from error
