"""Replace characters that tokenizers, files or terminals cannot handle, and refuse unknown encodings."""

from __future__ import annotations

import codecs


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which tokenizers and UTF-8 files cannot hold, by U+FFFD."""
    try:
        text.encode()  # ten times as fast as a search
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def on_one_line(text: str) -> str:
    """Replace white space by single spaces, and control characters of terminals as well."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def check_encoding(encoding: str | None) -> None:
    """Refuse an encoding that Python does not have."""
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as error:
        raise ValueError(f"There is no encoding {encoding!r} in Python: give another one, such as 'cp1252'.") from error
