"""What a visitor pastes or uploads as texts with and without labels, within the limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from .limits import Limits

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt")  # not the compressed ones: they may unpack to anything


class Texts(NamedTuple):
    """Texts, the label of each or None, and how many rows were left out, because they had no text."""

    texts: list[str]
    labels: list[str | None]
    left_out: int = 0


def pasted_texts(labeled: str, unlabeled: str, limits: Limits) -> Texts:
    """Lines of ``label: text``, and lines of texts."""
    texts, labels = [], []
    for number, line in enumerate(labeled.splitlines(), start=1):
        if not line.strip():
            continue
        label, colon, text = (part.strip() for part in line.partition(":"))
        if not (label and colon and text):
            raise ValueError(f"Line {number} has no label: write it as 'label: text'. It is {line.strip()[:60]!r}.")
        texts.append(text)
        labels.append(label)
    without = [line.strip() for line in unlabeled.splitlines() if line.strip()]
    return _checked(Texts(texts + without, labels + [None] * len(without)), limits)


def example_texts() -> Texts:
    """The example texts that come with the page; the last one is long."""
    import json

    lines = files(__package__).joinpath("example_texts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return Texts([row["text"] for row in rows], [row.get("label") for row in rows])


def columns_of(path: Path) -> list[str]:
    """The columns of an uploaded file, from its first rows."""
    rows = itertools.islice(read_upload(path), 100)
    return list(dict.fromkeys(itertools.chain.from_iterable(rows)))


def texts_of_file(path: Path, text_column: str, label_column: str | None, limits: Limits) -> Texts:
    """The texts of a file; those whose label is empty have none."""
    texts, labels, left_out = [], [], 0
    found: set[str] = set()
    for number, row in enumerate(read_upload(path), start=1):
        limits.check_rows(number)
        found.update(row)
        text = row.get(text_column)
        if not isinstance(text, str) or not text.strip():
            left_out += 1
            continue
        texts.append(text)
        labels.append(None if label_column is None else _label(row.get(label_column), number))
    for column in filter(None, (text_column, label_column)):
        if column not in found:
            raise ValueError(f"{path.name} has no column {column!r}, only {sorted(found)}: choose another one.")
    return _checked(Texts(texts, labels, left_out), limits)


def count_rows(path: Path, limits: Limits) -> tuple[int, list[str]]:
    """How many rows a file has, all of them within the limits, and its columns."""
    count, columns = 0, {}
    for count, row in enumerate(read_upload(path), start=1):
        limits.check_rows(count)
        limits.check_texts([value for value in row.values() if isinstance(value, str)], count)
        columns |= dict.fromkeys(row)
    return count, list(columns)


def read_upload(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of an uploaded file, with all their columns; errors name it as the visitor does."""
    from ..neighbors.row_files import read_rows

    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path.name} is of no kind that this page reads: give one of {', '.join(ENDINGS)}.")
    try:
        yield from read_rows(path, csv_separator=_separator_of(path))
    except ValueError as error:
        if isinstance(error.__cause__, UnicodeDecodeError) or isinstance(error, UnicodeDecodeError):
            raise ValueError(f"{path.name} is not encoded in UTF-8: save it as UTF-8.") from error
        raise ValueError(str(error).replace(str(path), path.name)) from error


def _separator_of(path: Path) -> str | None:
    """What separates the columns of a ``.csv`` file, by its header; None for other files."""
    from ..text.file_formats import SEPARATORS, file_format

    if file_format(path) != "csv":
        return None
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header = file.readline(10_000)
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    return max((usual, *SEPARATORS), key=header.count)


def _label(value: Any, number: int) -> str | None:
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int):
        raise ValueError(f"The label of row {number} is {str(value)[:60]!r}: this page takes one name for each text.")
    return str(value).strip()


def _checked(given: Texts, limits: Limits) -> Texts:
    if not given.texts:
        raise ValueError("There is no text in it.")
    limits.check_rows(len(given.texts))
    limits.check_texts(given.texts)
    limits.check_labels(label for label in given.labels if label is not None)
    return given
