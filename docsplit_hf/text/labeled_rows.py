"""Rows of any source as examples: texts, the names of their labels, and what becomes of each row."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .file_formats import file_format, file_state, load_file, naming, read_json_rows, refuse_separator
from .lone_surrogates import replace_lone_surrogates
from .unusable_rows import EMPTY, KEPT, NO_LABEL, NOT_A_STRING, refuse_other_types

if TYPE_CHECKING:
    from datasets import Dataset

# Columns beside the example: kept or why not, whether its label is a list, whether a lone surrogate was replaced.
REMARKS = OUTCOME, IS_LIST, REPLACED = "_docsplit_outcome", "_docsplit_is_list", "_docsplit_replaced"


def read_labeled_rows(
    split: Dataset | Path,
    split_name: str,
    columns: dict[str, str],
    label_separator: str | None,
    options: dict[str, str | None],
) -> tuple[Dataset, list[str]]:
    """One example for every row, also for those to drop, with labels by name; and the names of a ``ClassLabel``."""
    import datasets

    string, boolean = datasets.Value("string"), datasets.Value("bool")
    features = {name: datasets.List(string) if name == "label" else string for name in columns}
    features = datasets.Features({**features, OUTCOME: string, IS_LIST: boolean, REPLACED: boolean})
    making = {"columns": columns, "label_separator": label_separator}
    if isinstance(split, Path) and split.is_file() and file_format(split) == "json":
        with naming(split):
            refuse_separator("json", options["csv_separator"])
            arguments = {"path": split.absolute(), "encoding": options["encoding"], "making": making}
            arguments["state"] = file_state(split)
            return datasets.Dataset.from_generator(_read_json_examples, features, gen_kwargs=arguments), []
    if isinstance(split, datasets.IterableDataset):
        raise TypeError(f"The split {split_name!r} is a stream, not a data set: give Dataset.from_list(list(stream)).")
    rows = load_file(split, **options) if isinstance(split, Path) else split.with_format(None)
    if len(rows) == 0:
        raise ValueError(f"The split {split_name!r} is empty: leave it out, or check where it comes from.")
    _check_columns(rows.column_names, columns, split_name)
    for name in [name for name in columns if name.startswith("text")]:
        refuse_other_types(rows.features[columns[name]], columns[name], f"{name}_column")
    label = rows.features[columns["label"]]
    class_names = getattr(getattr(label, "feature", label), "names", None)
    needed = list(dict.fromkeys(columns.values()))
    examples = rows.select_columns(needed).map(
        _make_example,
        fn_kwargs={**making, "class_names": class_names},
        remove_columns=needed,
        features=features,
        desc=f"Reading {split_name}",
    )
    return examples, class_names or []


def _read_json_examples(
    path: Path, encoding: str | None, making: dict[str, Any], state: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    found: set[str] = set()
    rows = read_json_rows(path, encoding)
    first = next(rows, None)
    if first is None:
        raise ValueError("it holds no rows")
    for row in chain([first], rows):
        found.update(row)
        yield _make_example(row, **making)
    _check_columns(found, making["columns"], path.name)


def _check_columns(found: Iterable[str], columns: dict[str, str], place: str) -> None:
    for name, column in columns.items():
        if column not in found:
            raise ValueError(f"There is no column {column!r} in {place}, only {sorted(found)}: choose {name}_column.")


def _make_example(
    row: Mapping[str, Any],
    columns: dict[str, str],
    label_separator: str | None = None,
    class_names: list[str] | None = None,
) -> dict[str, Any]:
    values = {name: row.get(column) for name, column in columns.items()}
    if label_separator is not None and values["label"] is not None:
        values["label"] = _separate_labels(values["label"], label_separator)
    is_list = isinstance(values["label"], list)
    names = [label_name(label, class_names) for label in (values["label"] if is_list else [values["label"]])]
    texts = [value for name, value in values.items() if name.startswith("text")]
    if None in names:
        outcome = NO_LABEL
    elif not all(isinstance(text, str | None) for text in texts):
        outcome = NOT_A_STRING
    else:
        outcome = KEPT if all(text and text.strip() for text in texts) else EMPTY
    remarks = {OUTCOME: outcome, IS_LIST: is_list, REPLACED: False}
    if outcome != KEPT:
        return {**dict.fromkeys(columns), **remarks}
    if len(set(names)) < len(names):
        raise ValueError(f"The label {values['label']!r} names a class twice: list those that apply, not 0 and 1.")
    strings = {name: ["" if value is None else str(value)] for name, value in values.items()} | {"label": names}
    valid = {name: [replace_lone_surrogates(string) for string in some] for name, some in strings.items()}
    example = {name: some if name == "label" else some[0] for name, some in valid.items()}
    return {**example, **remarks, REPLACED: valid != strings}


def label_name(label: Any, class_names: list[str] | None = None) -> str | None:
    """The name of a class, of a name, a whole number or a truth value; None if the label is missing.

    ``class_names`` are those of a ``ClassLabel``, of which the label is a number.
    """
    if label is None or label != label or (isinstance(label, str) and not label.strip()):  # NaN is not itself
        return None
    if class_names is not None:
        return class_names[label] if label >= 0 else None
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


def _separate_labels(label: Any, separator: str) -> list[Any] | None:
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
