"""What a text-classification pipeline takes: texts, pairs of texts as dictionaries, and tables and columns of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..models.inference.batching import check_texts


def listed(given: Any) -> Any:
    """Texts that lie in a column or a table, as a list.

    Args:
        given: A sequence, an array or a pandas Series of texts; a pandas DataFrame or a ``datasets.Dataset`` with the
            column ``text`` and maybe ``text_pair``; or anything else.

    Returns:
        The list of texts, or of dictionaries with ``text`` and ``text_pair``, in their order. What is not one of these,
        a text, a dictionary, a generator, is given back as it is.

    Raises:
        TypeError: If a table has no column ``text``, or an array more than one dimension.

    Example:

        >>> import numpy as np
        >>> from datasets import Dataset
        >>> listed(np.array(["a text", "another"]))
        ['a text', 'another']
        >>> listed(Dataset.from_dict({"text": ["a question"], "text_pair": ["an answer"], "label": [0]}))
        [{'text': 'a question', 'text_pair': 'an answer'}]
    """
    if isinstance(given, (str, dict, list)):
        return given
    columns = getattr(given, "columns", None) if hasattr(given, "notna") else getattr(given, "column_names", None)
    if columns is not None and hasattr(given, "__len__"):
        if "text" not in columns:
            raise TypeError(f"There is no column 'text' among {list(columns)}: rename one, or pass one column.")
        if "text_pair" not in columns:
            return _values(given["text"])
        pairs = zip(_values(given["text"]), _values(given["text_pair"]), strict=True)
        return [{"text": text, "text_pair": pair} for text, pair in pairs]
    if getattr(given, "ndim", 1) != 1:
        raise TypeError(f"Expected one text in each row, got an array of shape {tuple(given.shape)}: pass one column.")
    return _values(given) if isinstance(given, Sequence) or hasattr(given, "tolist") else given


def _values(column: Any) -> list[Any]:
    if hasattr(column, "notna"):  # of pandas, where what is missing may be NaN
        column = column.astype(object).where(column.notna(), None)
    return column.tolist() if hasattr(column, "tolist") else list(column)


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
