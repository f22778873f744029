"""Pasted and uploaded texts, with and without labels, and files to classify."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..text.columns import columns_of
from ..text.example_texts import load_example_texts
from .sessions import Limits, Session, counted, percentage

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt")  # not the compressed ones: they may unpack to anything
UNICODE = "utf-8"
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar |": "|"}
ROW_OF_JSON = '{"text": "...", "label": "..."}'
NO_TEXT = (b"%PDF-", b"{\\rtf", BOM_UTF32_LE, BOM_UTF32_BE)  # how files begin that hold no plain text, or none we read
SENTENCES_OF_PANDAS = {
    "EOF inside string": "a quotation mark is opened and never closed",
    "No columns to parse": "it holds nothing but spaces and empty lines",
}
MOST_WORDS_OF_A_NAME = 3
ENCODINGS = [UNICODE, "cp1252", "gb18030", "big5", "shift_jis", "cp1250", "cp1251", "cp1253", "cp1254", "mac_roman"]


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
    """The example texts that come with the package; the last one is long."""
    examples = load_example_texts()
    return Texts(examples["text"].tolist(), examples["label"].tolist())


def encoding_of(path: Path) -> str:
    """The first encoding that can decode a file. The last one decodes any file."""
    content = path.read_bytes()
    for encoding in ENCODINGS[: None if content[:2] not in (BOM_UTF16_LE, BOM_UTF16_BE) else 1]:
        with contextlib.suppress(UnicodeDecodeError):
            content.decode(encoding)
            return encoding
    return UNICODE  # which says itself that it is UTF-16


def separator_of(path: Path, encoding: str) -> str | None:
    """The name of what separates the columns of a table, by its first line; None of files that are no tables."""
    from ..text.file_formats import file_format

    if file_format(path) != "csv":
        return None
    with open(path, "rb") as file:
        header = file.read(10_000).decode(encoding, errors="replace").partition("\n")[0]
    first = "tab" if path.suffix.lower() == ".tsv" else "comma"
    return max((first, *SEPARATORS), key=lambda name: header.count(SEPARATORS[name]))


def rows_of(path: Path, limits: Limits, *reading: str | None) -> list[dict[str, Any]]:
    """The rows of a file, if there are some, and not too many; ``reading`` are its encoding and its separator."""
    rows = list(itertools.islice(read_upload(path, *reading), limits.rows + 1))
    limits.check_rows(len(rows))
    if any(rows):
        return rows
    if path.stat().st_size == 0:
        raise ValueError(f"{path.name} is empty: choose another file.")
    if path.suffix.lower() in (".csv", ".tsv"):
        raise ValueError(f"{path.name} has a line with the names of columns, and no row below it: add the texts there.")
    raise ValueError(f"{path.name} holds no row: write an object for each text, as {ROW_OF_JSON}.")


def check_ending(path: Path) -> None:
    """Refuse a file that this page cannot read, by the end of its name."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"This page cannot read {path.name}: choose a file that ends in {', '.join(ENDINGS)}.")


def doubts_about_columns(columns: Sequence[str]) -> str:
    """A sentence on names of columns that look like none, or that came twice; empty if all look right."""
    looks_like_text = next((name for name in columns if len(name.split()) > MOST_WORDS_OF_A_NAME), None)
    if looks_like_text is not None:
        name = shortened(looks_like_text, 60)
        return (
            f"The first line is taken for the names of the columns, and {name!r} looks like a text. If it is one, "
            "write a line such as text,label above it, and choose the file again."
        )
    again = [name for name in columns if re.fullmatch(r"(.+)\.\d+", name) and name.rpartition(".")[0] in columns]
    if again:
        named = ", ".join(repr(shortened(name, 60)) for name in again[:3])
        return f"Some columns have the same name, and are told apart by a number: {named}. Check which one is chosen."
    return ""


def shortened(text: Any, most: int = 180) -> str:
    """A text that fits into a cell, in which Gradio shows 200 characters and cuts the next word."""
    text = " ".join(str(text or "").split())
    return text if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"


def texts_of_file(
    path: Path, text_column: str, label_column: str | None, limits: Limits, *reading: str | None
) -> Texts:
    """The texts of a file; those whose label is empty have none."""
    rows = rows_of(path, limits, *reading)
    columns_of(rows, text_column, label_column)
    found = [(row.get(text_column), _label(row.get(label_column), number)) for number, row in enumerate(rows, start=1)]
    usable = [pair for pair in found if isinstance(pair[0], str) and pair[0].strip()]
    if not usable:
        first = shortened(rows[0].get(text_column), 60)
        raise ValueError(
            f"No row has a text in the column {text_column!r}; the first one holds {first!r}: choose another column."
        )
    texts, labels = [text for text, _ in usable], [label for _, label in usable]
    return _checked(Texts(texts, labels, len(rows) - len(usable)), limits)


def read_upload(path: Path, encoding: str = UNICODE, separator: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an uploaded file. Errors name it without the server's folder."""
    from ..classification.answer_files import read_rows

    check_ending(path)
    with open(path, "rb") as file:
        first = file.read(10_000)
    has_control_characters = re.search(rb"[\0-\x08]", first) and not first.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    if has_control_characters or first.startswith(NO_TEXT):
        raise ValueError(f"{path.name} is not a text file: open it in the program that made it, and export it as CSV.")
    try:
        yield from read_rows(path, **_reading(path, encoding, separator))
    except ValueError as error:
        if isinstance(error.__cause__, UnicodeDecodeError) or isinstance(error, UnicodeDecodeError):
            raise UnicodeError(f"{path.name} is not encoded in {encoding}: choose another encoding.") from error
        for of_pandas, sentence in SENTENCES_OF_PANDAS.items():
            if of_pandas in str(error):
                raise ValueError(f"{path.name} cannot be used: {sentence}.") from error
        raise ValueError(str(error).replace(str(path), path.name)) from error
    except RecursionError as error:
        raise ValueError(f"{path.name} cannot be used: its brackets are nested too deep.") from error


def _reading(path: Path, encoding: str = UNICODE, separator: str | None = None) -> dict[str, str | None]:
    """The separator of a table, and the encoding; None: as the file is usually read."""
    given = None if encoding == UNICODE else encoding  # UTF-16 is read as such where the file says that it is
    return {"csv_separator": SEPARATORS.get(separator or separator_of(path, encoding)), "encoding": given}


def _label(value: Any, number: int) -> str | None:
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str | int | float):
        raise ValueError(f"The label of row {number} is {str(value)[:60]!r}: this page takes one name for each text.")
    return value.strip() if isinstance(value, str) else json.dumps(value)  # ``true`` stays ``true``


def _checked(given: Texts, limits: Limits) -> Texts:
    if not given.texts:
        raise ValueError("There is no text to add: write one, or choose a file.")
    limits.check_rows(len(given.texts))
    limits.check_texts(given.texts)
    limits.check_labels(label for label in given.labels if label is not None)
    return given


PREVIEW = 20
NO_ANSWER = "no answer"


def classify_upload(
    session: Session, path: Path, text_column: str, error: float | None, *reading: str | None
) -> tuple[Path, list[list[str]], str]:
    """The rows of a file with ``label`` and ``score``, the first ones to show, and a sentence on it.

    With ``error`` unsure texts get no label, so that at most such a share of the answers is wrong.
    """
    from ..classification.answer_files import read_rows
    from ..classification.predict_file import PredictionFiles, classify_file

    _ = session.store
    rows, target = rows_of(path, session.limits, *reading), session.folder / "answers.csv"
    columns_of(rows, text_column)
    session.limits.check_texts(str(row.get(text_column)) for row in rows)
    files = PredictionFiles(path, target, text_column, safe_csv=True, **_reading(path, *reading))
    outcome = classify_file(session.pipe, files, overwrite=True, **({"reject": error} if error else {}))
    added = ("label", "score", "reason") if error else ("label", "score")
    shown = f"input_{text_column}" if text_column in added else text_column
    first = [
        [shortened(row[shown]), row["label"] or NO_ANSWER if row["score"] else "", percentage(float(row["score"] or 0))]
        for row in itertools.islice(read_rows(target), PREVIEW)
    ]
    said = f"Classified {counted(outcome.rows - outcome.without_text - outcome.rejected, 'row')}."
    for count, what in (
        (outcome.rejected, "not sure enough, or without content,"),
        (outcome.without_text, "without a text"),
    ):
        said += f" {counted(count, 'row')} {what} got no label." if count else ""
    return target, first, said
