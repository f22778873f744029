"""What a text-classification pipeline takes: texts, and pairs of texts as dictionaries."""

from __future__ import annotations

from typing import Any

from ..models.batched_inference import check_texts


def texts_and_pairs(inputs: list[Any]) -> tuple[list[str], list[str] | None]:
    """Tell texts and pairs of texts apart.

    Args:
        inputs: Texts; or dictionaries with ``text`` and maybe ``text_pair``.

    Returns:
        The texts, and the pairs or None.

    Raises:
        TypeError: If one is neither, or both kinds are mixed.

    Example:

        >>> texts_and_pairs([{"text": "a question", "text_pair": "an answer"}])
        (['a question'], ['an answer'])
    """
    if isinstance(inputs, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    if not any(isinstance(given, dict) for given in inputs):
        check_texts(inputs)
        return inputs, None
    for i, given in enumerate(inputs):
        if not isinstance(given, dict) or not {"text"} <= set(given) <= {"text", "text_pair"}:
            raise TypeError(
                f"Text {i} is {given!r}: a pair is a dictionary with 'text' and 'text_pair', and where there are "
                "dictionaries all must be."
            )
    pairs = [given.get("text_pair") for given in inputs]
    if all(pair is None for pair in pairs):
        pairs = None
    else:
        check_texts(pairs, "Text pair")
    check_texts([given["text"] for given in inputs])
    return [given["text"] for given in inputs], pairs
