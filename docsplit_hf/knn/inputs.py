"""What a text-classification pipeline takes: texts, and pairs of texts as dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..models.batching import check_texts


def texts_and_pairs(inputs: Sequence[Any], first: int = 0) -> tuple[list[str], list[str | None]]:
    """Tell texts and pairs of texts apart.

    Args:
        inputs: Texts, and dictionaries with ``text`` and maybe ``text_pair``.
        first: The number of the first, for errors.

    Returns:
        The texts, and the second text of each, None where there is none.

    Raises:
        TypeError: If one is neither.

    Example:

        >>> texts_and_pairs(["a text", {"text": "a question", "text_pair": "an answer"}])
        (['a text', 'a question'], [None, 'an answer'])
    """
    if isinstance(inputs, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    for i, given in enumerate(inputs, first):
        if isinstance(given, dict) and not {"text"} <= set(given) <= {"text", "text_pair"}:
            raise TypeError(f"Text {i} is {given!r}: a pair is a dictionary with 'text' and 'text_pair'.")
    texts = [given["text"] if isinstance(given, dict) else given for given in inputs]
    pairs = [given.get("text_pair") if isinstance(given, dict) else None for given in inputs]
    check_texts(texts, first=first)
    check_texts(["" if pair is None else pair for pair in pairs], "Text pair", first)
    return texts, pairs
