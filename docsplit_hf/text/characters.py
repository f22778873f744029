"""Characters that no tokenizer, no file or no terminal can take."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which no tokenizer and no file can hold, by U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):  # without the copies
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def on_one_line(text: str) -> str:
    """A text with single spaces, and without characters that would steer a terminal."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
