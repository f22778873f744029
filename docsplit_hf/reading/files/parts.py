"""Parts of a file as its format gives them, and the text that is made of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from ..characters import on_one_line, replace_lone_surrogates
from .failures import EMPTY, TOO_LARGE, TOO_MANY_PAGES, UNPACKS_TOO_LARGE, Refusal
from .options import FileOptions
from .places import FileText, LeftOut, Place

SEPARATOR = "\n"
LONGEST_PART_NAME = 300  # characters of the name of a part
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ufffe\uffff]")


class Part(NamedTuple):
    """A part of a file, in the order of reading. One without a kind is no place."""

    kind: str
    name: str
    text: str


class Inner(NamedTuple):
    """A file in another one, which is not read yet."""

    name: str
    read: Callable[[], bytes]


@dataclass
class Content:
    """All parts of a file, those that are not read, the files in it, and the numbers of ``FileText``."""

    parts: list[Part] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    inner: list[Inner] = field(default_factory=list)
    pages_without_text: int = 0
    dropped_lines: int = 0

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Content without places."""
        return cls([Part("", "", text)])


class Budget:
    """What is left of the limits of one file, over all files in it."""

    def __init__(self, options: FileOptions) -> None:
        self.options = options
        self.bytes_left = options.max_unpacked_bytes
        self.pages_left = options.max_pages

    def take_bytes(self, count: int) -> None:
        """Count unpacked bytes."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise Refusal(UNPACKS_TOO_LARGE, f"more than max_unpacked_bytes={self.options.max_unpacked_bytes:,}")

    def take_pages(self, count: int) -> None:
        """Count pages, or other parts."""
        self.pages_left -= count
        if self.pages_left < 0:
            raise Refusal(TOO_MANY_PAGES, f"more than max_pages={self.options.max_pages:,}")


def join_parts(content: Content, options: FileOptions) -> FileText:
    """Join the texts of parts, and record where each one is; refuse a file without text, or with too much."""
    texts: list[str] = []
    places: list[Place] = []
    position = 0
    for part in content.parts:
        text = _CONTROL.sub("\ufffd", replace_lone_surrogates(part.text).strip())
        if not text:
            continue
        end = position + len(text)
        if part.kind:
            places.append(
                Place(kind=part.kind, name=on_one_line(part.name)[:LONGEST_PART_NAME], start=position, end=end)
            )
        texts.append(text)
        position = end + len(SEPARATOR)
        if position > options.max_characters:
            raise Refusal(TOO_LARGE, f"more than max_characters={options.max_characters:,}")
    if not texts:
        raise Refusal(EMPTY)
    left_out = tuple(part._replace(name=on_one_line(part.name)[:LONGEST_PART_NAME]) for part in content.left_out)
    return FileText(
        text=SEPARATOR.join(texts),
        places=tuple(places),
        left_out=left_out,
        pages_without_text=content.pages_without_text,
        dropped_lines=content.dropped_lines,
    )
