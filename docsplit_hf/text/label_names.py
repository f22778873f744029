"""From the values in a column of labels to the names of classes."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from typing import Any


def label_name(label: Any, class_names: list[str] | None = None) -> str | None:
    """The name of a class, of a name, a whole number or a truth value; None if the label is missing.

    ``class_names`` are those of a ``ClassLabel``, of which the label is a number.
    """
    if label is None or label != label or (isinstance(label, str) and not label.strip()):  # NaN is not itself
        return None
    if class_names is not None:
        return class_names[label] if label >= 0 else None
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if not isinstance(label, str | int):
        raise ValueError(f"The label {label!r} is no class: give names or whole numbers, or choose label_column.")
    return str(label)


def number_or_name(name: str) -> tuple[float, str]:
    """A key that sorts names that are numbers by size, before the others."""
    return (int(name) if re.fullmatch(r"-?[0-9]{1,18}", name) else math.inf, name)


def separate_labels(label: Any, separator: str) -> list[Any] | None:
    """The labels in one string, joined by ``separator`` or as a list in JSON or Python; None of a blank one."""
    if not isinstance(label, str):
        return label if isinstance(label, list) else [label]
    if not label.strip():
        return None
    if _looks_like_list(label):
        if re.search(r"""['"]\s+['"]""", label):  # Python would join the strings
            raise ValueError(f"The label {label!r} is a list without commas, as numpy writes it: write it as JSON.")
        for read in (json.loads, ast.literal_eval):
            try:
                return list(read(label.strip()))
            except (ValueError, SyntaxError):
                continue
    return [part.strip() for part in label.split(separator) if part.strip()]


def suspect_several(names: Sequence[str]) -> str | None:
    """What to tell the user if half of some labels or more look like several names in one string, otherwise None."""
    for look, separator, joined in (
        ("hold ';'", ";", [name for name in names if ";" in name]),
        ("look like lists", ",", [name for name in names if _looks_like_list(name)]),
    ):
        if len(joined) * 2 >= len(names) > 0:
            return (
                f"{len(joined)} of {len(names)} labels {look}, such as {joined[0]!r}, each taken for one class: "
                f"if they are several, label_separator={separator!r}."
            )
    return None


def _looks_like_list(label: str) -> bool:
    return label.strip().startswith("[") and label.strip().endswith("]")
