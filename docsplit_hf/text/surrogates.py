"""Code points that no tokenizer and no file can hold."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_lone_surrogates(text: str) -> str:
    """Replace code points that no tokenizer and no file can hold, lone surrogates, by U+FFFD.

    Args:
        text: Any string.

    Returns:
        The same string where it is valid Unicode.

    Example:

        >>> replace_lone_surrogates("a\\ud800b") == "a\\ufffdb"
        True
    """
    if text.isascii() or not _SURROGATE.search(text):  # without the copies
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
