"""Labels: their names, as sources have them, and their numbers, as data sets and datastores have them."""

from __future__ import annotations

import ast
import json
import logging
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from .columns import guess_columns
from .sources import as_dataset

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

ROWS_TO_GUESS_BY = 1_000
MOST_ALIKE = 5  # groups of labels that a warning names


def texts_of(dataset: Dataset) -> tuple[list[str], list[str] | None]:
    """The column ``text``, and ``text_pair`` or None."""
    if "text" not in dataset.column_names:
        raise ValueError(f"There is no column 'text' among {dataset.column_names}: load with load_labeled_examples.")
    return list(dataset["text"]), list(dataset["text_pair"]) if "text_pair" in dataset.column_names else None


def label_names_of(dataset: Dataset) -> list[str]:
    """The names of the labels in the order of their numbers, of a ``ClassLabel`` or of lists of it."""
    feature = dataset.features.get("label")
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        raise ValueError(f"The column 'label' must hold ClassLabel, got {feature}: load with load_labeled_examples.")
    return list(names)


def is_multi_label(dataset: Dataset) -> bool:
    """Whether the column ``label`` holds lists."""
    return hasattr(dataset.features["label"], "feature")


def with_class_labels(
    table: Any,
    text_column: str | None = None,
    label_column: str | None = None,
    text_pair_column: str | None = None,
) -> Dataset:
    """A table in memory as a data set with ``text`` and ``label``, its labels by name as a ``ClassLabel``.

    Columns that are not named are ``text`` and ``label``; where there are none, they are guessed, which is logged.
    """
    import datasets
    import pandas as pd

    data = as_dataset(pd.DataFrame(table) if isinstance(table, dict | list) else table)
    given = {"text": text_column, "label": label_column, "text_pair": text_pair_column}
    data = _with_standard_names(data, given)
    feature = data.features["label"]
    if hasattr(getattr(feature, "feature", feature), "names"):
        return data
    given = data.with_format(None)["label"][:]
    rows = [[label_name(label) for label in (labels if isinstance(labels, list) else [labels])] for labels in given]
    if (row := next((row for row, names in enumerate(rows) if None in names), None)) is not None:
        raise ValueError(f"Row {row} has no label ({given[row]!r}): leave it out.")
    label = datasets.ClassLabel(names=sorted(set(chain(*rows)), key=number_or_name))
    numbers, several = [label.str2int(names) for names in rows], hasattr(feature, "feature")
    column = (numbers, datasets.List(label)) if several else ([number for (number,) in numbers], label)
    return data.remove_columns("label").add_column("label", column[0], feature=column[1])


def _with_standard_names(data: Dataset, given: Mapping[str, str | None]) -> Dataset:
    """The same rows with the columns of texts and labels called ``text``, ``label`` and maybe ``text_pair``."""
    columns = data.column_names
    for name, column in given.items():
        if column is not None and column not in columns:
            raise ValueError(f"There is no column {column!r} among {columns}: choose {name}_column.")
    found = {name: column or (name if name in columns else None) for name, column in given.items()}
    if missing := [name for name in ("text", "label") if found[name] is None]:
        guessed = _guess(data, found)
        if unknown := [name for name in missing if guessed[name] is None]:
            raise ValueError(f"None of the columns {columns} seems to hold {unknown[0]}s: choose {unknown[0]}_column.")
        found |= {name: guessed[name] for name in missing}
        read = " and ".join(f"{name}s from column {found[name]!r}" for name in missing)
        otherwise = " and ".join(f"{name}_column" for name in missing)
        logger.warning("Reading %s, as no other was named (%s).", read, otherwise)
    roles = {column: name for name, column in found.items() if column is not None}
    return data.select_columns(list(roles)).rename_columns({old: new for old, new in roles.items() if old != new})


def _guess(data: Dataset, found: Mapping[str, str | None]) -> dict[str, str | None]:
    """The columns of texts and of labels, beside those that are found already; None where none fits."""
    taken = [column for name, column in found.items() if column is not None and name != "text"]
    free = data.select_columns([column for column in data.column_names if column not in taken])
    rows = free.select(range(min(len(free), ROWS_TO_GUESS_BY))).with_format(None).to_list()
    text, label = guess_columns(rows, text_column=found["text"])
    features = {name: getattr(feature, "feature", feature) for name, feature in free.features.items()}
    classes = [name for name, feature in features.items() if hasattr(feature, "names")]
    return {"text": text, "label": classes[0] if len(classes) == 1 else label}


def labels_by_name(dataset: Dataset) -> list[str] | list[list[str]]:
    """The names of each row's label, or of its labels."""
    names, labels = label_names_of(dataset), dataset.with_format(None)["label"][:]
    return [[names[i] for i in given] if isinstance(given, list) else names[given] for given in labels]


def label_array(dataset: Dataset, label_names: Sequence[str], multi_label: bool) -> np.ndarray:
    """The labels of examples by ``label_names``: int64 ``(N,)``, or with ``multi_label`` bool ``(N, C)``."""
    number = {name: i for i, name in enumerate(label_names)}
    names, labels = label_names_of(dataset), dataset.with_format(None)["label"][:]
    result = np.zeros((len(labels), len(number)), bool) if multi_label else np.zeros(len(labels), np.int64)
    for row, given in enumerate(labels):
        for label in given if multi_label else [given]:
            if label is None or not 0 <= label < len(names):
                raise ValueError(f"The label of row {row} is {label}, none of 0 to {len(names) - 1}: leave it out.")
            if names[label] not in number:
                raise ValueError(f"The label {names[label]!r} is none of those known here: {', '.join(label_names)}.")
            if multi_label:
                result[row, number[names[label]]] = True
            else:
                result[row] = number[names[label]]
    return result


def label_name(label: Any, class_names: list[str] | None = None) -> str | None:
    """The name of a class, of a label as a source has it, or of one of ``class_names``; None if it is missing."""
    if label is None or label != label or (isinstance(label, str) and not label.strip()):  # NaN is not itself
        return None
    if class_names is not None:
        return class_names[label] if label >= 0 else None
    if hasattr(label, "item"):  # of NumPy
        label = label.item()
    if isinstance(label, bool):
        return json.dumps(label)  # true and false, as in files
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if not isinstance(label, str | int):
        raise ValueError(f"The label {label!r} is no class: give names or whole numbers, or choose label_column.")
    return str(label)


def number_or_name(name: str) -> tuple[float, str]:
    """A key that sorts names that are numbers by size, before the others."""
    return (int(name) if re.fullmatch(r"-?[0-9]{1,18}", name) else math.inf, name)


def plain_spelling(name: str) -> str:
    """A label without what the eye overlooks: case, the form of its accents (NFC or NFD), and white space around it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).strip()


def alike_labels(counts: Mapping[str, int]) -> list[list[str]]:
    """Labels that differ in their spelling alone, in groups of two or more; the most frequent of each comes first."""
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(plain_spelling(name), []).append(name)
    return [sorted(names, key=lambda name: (-counts[name], name)) for names in groups.values() if len(names) > 1]


def describe_alike(counts: Mapping[str, int], advice: str) -> str | None:
    """A warning that names labels which differ in their spelling alone; None if there are none."""
    groups = alike_labels(counts)
    if not groups:
        return None
    named = "; ".join(" and ".join(repr(name) for name in names) for names in groups[:MOST_ALIKE])
    more = f"; and {len(groups) - MOST_ALIKE} more" if len(groups) > MOST_ALIKE else ""
    return f"Labels differ only by case, Unicode form or white space around them: {named}{more}. {advice}"


def merged_labels(counts: Mapping[str, int]) -> dict[str, str]:
    """For each label that differs from a more frequent one in its spelling alone, that one."""
    return {name: names[0] for names in alike_labels(counts) for name in names[1:]}


def separate_labels(label: Any, separator: str) -> list[Any] | None:
    """The labels in one string, joined by ``separator`` or as a list in JSON or Python; None if it is blank."""
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
    """A hint for the user if half of the labels or more look like several names in one string, otherwise None."""
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
