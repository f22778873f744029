"""Characters and words of a text: replace what tokenizers, files or terminals cannot handle, and find the words."""

from __future__ import annotations

import codecs
import re

MAX_CHARACTERS = 2**20  # of a text, about the length of a long book; the rest is ignored
# Thai, Lao, Khmer, Burmese, Japanese and Chinese: pairs of neighboring characters are used as words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_SPACED_WORD = re.compile(r"\w\w+")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]{{2,}}")


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which tokenizers and UTF-8 files cannot hold, by U+FFFD."""
    try:
        text.encode()  # ten times as fast as a search
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def words_of(text: str) -> list[str]:
    """Split a text into lowercase words; in scripts without spaces, into pairs of neighboring characters."""
    text = text[:MAX_CHARACTERS].lower()
    if not _HAS_UNSPACED.search(text):
        return _SPACED_WORD.findall(text)
    words: list[str] = []
    for run in _RUN.findall(text):
        pairs = [run[i : i + 2] for i in range(max(len(run) - 1, 1))]
        words += pairs if _HAS_UNSPACED.match(run) else [run]
    return words


def on_one_line(text: str) -> str:
    """Replace white space by single spaces, and control characters of terminals as well."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def check_encoding(encoding: str | None) -> None:
    """Refuse an encoding that Python does not have."""
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as error:
        raise ValueError(f"There is no encoding {encoding!r} in Python: give another one, such as 'cp1252'.") from error
