"""Labels: as names in sources and as numbers in data sets and datastores, and of texts that are given twice."""

from __future__ import annotations

import ast
import json
import logging
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from .source import as_dataset

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

MAX_SHOWN_GROUPS = 5  # groups of similar labels in a warning
MAX_SHOWN_TEXTS = 3
MAX_SHOWN_CHARACTERS = 60  # of a text


def texts_of(dataset: Dataset) -> tuple[list[str], list[str] | None]:
    """The column ``text``, and ``text_pair`` or None."""
    if "text" not in dataset.column_names:
        raise ValueError(f"There is no column 'text' among {dataset.column_names}: load with load_labeled_examples.")
    return list(dataset["text"]), list(dataset["text_pair"]) if "text_pair" in dataset.column_names else None


def label_names_of(dataset: Dataset) -> list[str]:
    """Names of the labels in the order of their numbers, from a ``ClassLabel`` or a list of it."""
    feature = dataset.features.get("label")
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        raise ValueError(f"The column 'label' must hold ClassLabel, got {feature}: load with load_labeled_examples.")
    return list(names)


def has_several_labels(dataset: Dataset) -> bool:
    """Whether the column ``label`` has lists."""
    return hasattr(dataset.features["label"], "feature")


def with_class_labels(
    table: Any,
    text_column: str | None = None,
    label_column: str | None = None,
    text_pair_column: str | None = None,
) -> Dataset:
    """Make a data set with ``text`` and ``label`` (a ``ClassLabel``) of a table in memory."""
    import datasets
    import pandas as pd

    data = as_dataset(pd.DataFrame(table) if isinstance(table, dict | list) else table)
    data = _with_standard_names(data, {"text": text_column, "label": label_column, "text_pair": text_pair_column})
    feature = data.features["label"]
    if hasattr(getattr(feature, "feature", feature), "names"):
        return data
    given = data.with_format(None)["label"][:]
    rows = [[label_name(label) for label in (labels if isinstance(labels, list) else [labels])] for labels in given]
    for row, names in enumerate(rows):
        if None in names:
            raise ValueError(f"Row {row} has no label ({given[row]!r}): leave it out.")
    class_label = datasets.ClassLabel(names=sorted(set(chain(*rows)), key=number_or_name))
    numbers = [class_label.str2int(names) for names in rows]
    data = data.remove_columns("label")
    if hasattr(feature, "feature"):
        return data.add_column("label", numbers, feature=datasets.List(class_label))
    return data.add_column("label", [number for (number,) in numbers], feature=class_label)


def _with_standard_names(data: Dataset, given: Mapping[str, str | None]) -> Dataset:
    """Rename the given columns to ``text``, ``label`` and ``text_pair``, which they have by default."""
    columns = data.column_names
    found = {name: column or name for name, column in given.items() if column or name != "text_pair" or name in columns}
    for name, column in found.items():
        if column not in columns:
            raise ValueError(f"There is no column {column!r} among {columns}: choose {name}_column.")
    roles = {column: name for name, column in found.items()}
    return data.select_columns(list(roles)).rename_columns({old: new for old, new in roles.items() if old != new})


def labels_by_name(dataset: Dataset) -> list[str] | list[list[str]]:
    """The name of each row's label, or the list of names of its labels."""
    names = label_names_of(dataset)
    labels = dataset.with_format(None)["label"][:]
    return [[names[i] for i in given] if isinstance(given, list) else names[given] for given in labels]


def label_array(dataset: Dataset, label_names: Sequence[str], multi_label: bool) -> np.ndarray:
    """Label numbers in the order of ``label_names``: int64 ``(N,)``, or with ``multi_label`` bool ``(N, C)``."""
    number = {name: i for i, name in enumerate(label_names)}
    names = label_names_of(dataset)
    labels = dataset.with_format(None)["label"][:]
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
    """Name of a label in a source, or of a number in ``class_names``; None if it is missing."""
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
        raise ValueError(f"The label {label!r} is not a class: give names or whole numbers, or choose label_column.")
    return str(label)


def are_lists(labels: Sequence[Any]) -> bool:
    """Whether the first label is a list, tuple, set or array."""
    first = next(iter(labels), None)
    return isinstance(first, (list, tuple, set, frozenset)) or np.ndim(first) > 0


def names_of_labels(labels: Sequence[Any]) -> list[Any]:
    """Convert labels, or lists of labels, to names; numbers and bools become text, which is logged once."""
    names: list[Any] = []
    for row, given in enumerate(labels):
        is_list = are_lists([given])
        names.append([_name_of_label(label, row) for label in given] if is_list else _name_of_label(given, row))
    each = chain.from_iterable(given if are_lists([given]) else [given] for given in labels)
    other = next((label for label in each if not isinstance(label, str)), None)
    if other is not None:
        logger.warning(
            "Labels other than strings are converted to text, %r to %r. For a ClassLabel column, give the names: %s.",
            other,
            label_name(other),
            "[dataset.features['label'].int2str(label) for label in dataset['label']]",
        )
    return names


def _name_of_label(label: Any, row: int) -> str:
    """Convert a label, a string or a number, to a name; ``row`` is the number of its text in errors."""
    if isinstance(label, str):
        if label.strip():
            return label
        raise ValueError(
            f"The label of text {row} is {label!r}, not a name: leave it out, or give it to add_documents, which takes "
            "texts without labels."
        )
    if str(label) in ("None", "nan", "<NA>", "NaT"):
        raise TypeError(
            f"The label of text {row} is {label!r}, not a name: leave it out, or give it to add_documents, which takes "
            "texts without labels."
        )
    try:
        return label_name(label)
    except ValueError as error:
        raise TypeError(f"The label of text {row} is {label!r}, not a name: give names, or whole numbers.") from error


def number_or_name(name: str) -> tuple[float, str]:
    """Sort key that puts numbers first, by size."""
    return (int(name) if re.fullmatch(r"-?[0-9]{1,18}", name) else math.inf, name)


def plain_spelling(name: str) -> str:
    """Normalize case, Unicode form (NFC or NFD) and surrounding white space of a label."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).strip()


def alike_labels(counts: Mapping[str, int]) -> list[list[str]]:
    """Groups of labels with the same ``plain_spelling``, the most frequent label of each group first."""
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(plain_spelling(name), []).append(name)
    return [sorted(names, key=lambda name: (-counts[name], name)) for names in groups.values() if len(names) > 1]


def describe_alike(counts: Mapping[str, int]) -> str | None:
    """A warning about labels that differ only in their spelling; None if there are none."""
    groups = alike_labels(counts)
    if not groups:
        return None
    shown = "; ".join(" and ".join(repr(name) for name in names) for names in groups[:MAX_SHOWN_GROUPS])
    more = f"; and {len(groups) - MAX_SHOWN_GROUPS} more" if len(groups) > MAX_SHOWN_GROUPS else ""
    return (
        f"Labels differ only by case, Unicode form or white space around them: {shown}{more}. If they are the same "
        "label, give them one name."
    )


def separate_labels(label: Any, separator: str) -> list[Any] | None:
    """Split a string of labels that ``separator`` joins or that is a list in JSON or Python; None if it is blank."""
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
            except (ValueError, SyntaxError, RecursionError, MemoryError):  # both last ones: nested too deeply
                continue
    return [part.strip() for part in label.split(separator) if part.strip()]


def joined_labels_hint(names: Sequence[str]) -> str | None:
    """A hint for the user if at least half of the labels look like several labels in one string."""
    with_semicolon = [name for name in names if ";" in name]
    like_lists = [name for name in names if _looks_like_list(name)]
    for joined, look, separator in ((with_semicolon, "contain ';'", ";"), (like_lists, "look like lists", ",")):
        if len(joined) * 2 >= len(names) > 0:
            return (
                f"{len(joined)} of {len(names)} labels {look}, such as {joined[0]!r}, and each is read as one class: "
                f"if they are several labels, pass label_separator={separator!r}."
            )
    return None


def _looks_like_list(label: str) -> bool:
    return label.strip().startswith("[") and label.strip().endswith("]")


def without_copies(examples: Dataset, name: str) -> Dataset:
    """Drop examples that repeat the text, pair and labels of an earlier one; their number is logged.

    Duplicates of training examples among held-out ones would make the measured accuracy too high.
    """
    columns = [column for column in ("text", "text_pair") if column in examples.column_names]
    contents = list(zip(*(examples[column][:] for column in columns), strict=True))
    labels = [label_set(given) for given in labels_by_name(examples)]
    warn_of_contradictions(zip(contents, labels, strict=True))
    first_rows: dict[Any, int] = {}
    for row, example in enumerate(zip(contents, labels, strict=True)):
        first_rows.setdefault(example, row)
    if len(first_rows) == len(examples):
        return examples
    logger.warning(
        "%s: %d of %d examples repeat the text and the label of another one, and are left out.",
        name,
        len(examples) - len(first_rows),
        len(examples),
    )
    return examples.select(sorted(first_rows.values()))


def warn_of_contradictions(examples: Iterable[tuple[Sequence[str | None], frozenset[str]]]) -> None:
    """Warn about texts with different labels. ``examples`` are texts (and pairs) with their labels."""
    labels_of_texts: dict[tuple[str | None, ...], list[frozenset[str]]] = {}
    for content, labels in examples:
        found = labels_of_texts.setdefault(tuple(content), [])
        if labels not in found:
            found.append(labels)
    contradictory = {content: found for content, found in labels_of_texts.items() if len(found) > 1}
    if not contradictory:
        return
    shown = []
    for content, found in list(contradictory.items())[:MAX_SHOWN_TEXTS]:
        text = " ".join(str(content[0]).split())[:MAX_SHOWN_CHARACTERS]
        names = " and ".join(repr(", ".join(sorted(labels))) for labels in found)
        shown.append(f"{text!r} as {names}")
    more = ", and others" if len(contradictory) > MAX_SHOWN_TEXTS else ""
    logger.warning(
        "%d texts have different labels: %s%s. Keep one of them.", len(contradictory), "; ".join(shown), more
    )


def label_set(labels: str | Iterable[str]) -> frozenset[str]:
    """The labels of an example, as a set."""
    return frozenset([labels] if isinstance(labels, str) else labels)
