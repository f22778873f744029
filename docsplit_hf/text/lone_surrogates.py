"""Code points that no tokenizer and no file can hold."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which no tokenizer and no file can hold, by U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):  # without the copies
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
