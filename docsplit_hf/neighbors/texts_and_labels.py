"""What the pipeline is given: texts and pairs of texts, from lists, columns and tables; and names of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..models.inference.batching import check_texts
from .store.row_table import is_multi_label


def as_list(given: Any) -> Any:
    """A sequence, an array, a Series, a DataFrame or a data set as a list of texts or of pairs, in their order.

    A DataFrame or a ``datasets.Dataset`` has the column ``text`` and maybe ``text_pair``. Anything else, such as a
    text, a dictionary or a generator, is given back as it is.
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


def texts_and_pairs(given: Any, first: int = 0) -> tuple[list[str], list[str | None]]:
    """The texts of what is given, and the second text of each or None. ``first`` numbers the first one, for errors."""
    given = as_list(given)
    if isinstance(given, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    given = list(given)
    for i, item in enumerate(given, first):
        if isinstance(item, dict) and not {"text"} <= set(item) <= {"text", "text_pair"}:
            raise TypeError(f"Text {i} is {item!r}: a pair is a dictionary with 'text' and 'text_pair'.")
    texts = [item["text"] if isinstance(item, dict) else item for item in given]
    pairs = [item.get("text_pair") if isinstance(item, dict) else None for item in given]
    check_texts(texts, first=first)
    check_texts(["" if pair is None else pair for pair in pairs], "Text pair", first)
    return texts, pairs


def names_of_labels(labels: Sequence[Any]) -> list[Any]:
    """Names of labels, or lists of them. Numbers are refused: it is not known which labels they number."""
    labels = [list(given) if is_multi_label([given]) else given for given in labels]
    for row, given in enumerate(labels):
        for label in given if isinstance(given, list) else [given]:
            if not isinstance(label, str):
                raise TypeError(
                    f"The label of text {row} is {label!r}, not a name. Of a ClassLabel column: "
                    "[dataset.features['label'].int2str(label) for label in dataset['label']]."
                )
    return labels


def _values(column: Any) -> list[Any]:
    if hasattr(column, "notna"):  # of pandas, where what is missing may be NaN
        column = column.astype(object).where(column.notna(), None)
    return column.tolist() if hasattr(column, "tolist") else list(column)
