"""Read pasted and uploaded texts, with or without labels, and classify uploaded files."""

from __future__ import annotations

import contextlib
import itertools
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...reading.columns import columns_of
from ...reading.example_texts import load_example_texts
from ...reading.labels import label_name
from ...reading.tables import SEPARATORS, file_format
from .sessions import PageLimits, PlannedText, Row

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt")  # no compressed files: they may unpack to any size
TABLE_ENDINGS = ENDINGS[:-1]  # several .txt files are documents
UNICODE = "utf-8"
EXAMPLE_JSON_ROW = '{"text": "...", "label": "..."}'
# The first bytes of files that are not plain text (PDF, RTF), or are in UTF-32.
UNREADABLE_BEGINNINGS = (b"%PDF-", b"{\\rtf", BOM_UTF32_LE, BOM_UTF32_BE)
# Sentences for parts of the error messages of pandas and of Python's JSON.
PARSER_ERRORS = {
    "EOF inside string": "a quotation mark is opened and never closed",
    "No columns to parse": "it holds nothing but spaces and empty lines",
    "maximum recursion depth": "its brackets are nested too deep",
}
# Tried in this order; the last one decodes any file.
ENCODINGS = [UNICODE, "cp1252", "gb18030", "big5", "shift_jis", "cp1250", "cp1251", "cp1253", "cp1254", "mac_roman"]


class LabeledTexts(NamedTuple):
    """Texts as a pipeline takes them, the label of each or None, and the number of rows left out for lack of text."""

    texts: list[Any]
    labels: list[str | None]
    left_out: int = 0


def pasted_texts(labeled: str, unlabeled: str, limits: PageLimits) -> LabeledTexts:
    """Parse lines of ``label: text``, and lines of unlabeled texts."""
    texts = []
    labels = []
    for number, line in enumerate(labeled.splitlines(), start=1):
        if not line.strip():
            continue
        label, colon, text = (part.strip() for part in line.partition(":"))
        if not (label and colon and text):
            raise ValueError(f"Line {number} has no label: write it as 'label: text'. It is {line.strip()[:60]!r}.")
        texts.append(text)
        labels.append(label)
    without_label = [line.strip() for line in unlabeled.splitlines() if line.strip()]
    return _checked(LabeledTexts(texts + without_label, labels + [None] * len(without_label)), limits)


def example_texts() -> LabeledTexts:
    """Load the example texts of the package; the last one is long."""
    examples = load_example_texts()
    return LabeledTexts(examples["text"].tolist(), examples["label"].tolist())


def encoding_of(path: Path) -> str:
    """The first encoding that can decode a file; UTF-8 for a file with a UTF-16 mark."""
    content = path.read_bytes()
    if content[:2] in (BOM_UTF16_LE, BOM_UTF16_BE):
        return UNICODE
    for encoding in ENCODINGS:
        with contextlib.suppress(UnicodeDecodeError):
            content.decode(encoding)
            return encoding
    return UNICODE


def table_settings(path: Path, encoding: str) -> dict[str, str | None]:
    """How a table is read: the separator that is most frequent in its first line, and the encoding.

    Without an encoding for UTF-8, a file with a UTF-16 mark is read as UTF-16.
    """
    separator = None
    if file_format(path) == "csv":
        with open(path, "rb") as file:
            header = file.read(10_000).decode(encoding, errors="replace").partition("\n")[0]
        first = "\t" if path.suffix.lower() == ".tsv" else ","
        separator = max((first, *SEPARATORS), key=header.count)
    return {"csv_separator": separator, "encoding": None if encoding == UNICODE else encoding}


def rows_of_upload(path: Path, limits: PageLimits, encoding: str = UNICODE) -> list[Row]:
    """Read the rows of a file; raise if there are none or too many."""
    rows = list(itertools.islice(read_upload(path, encoding), limits.rows + 1))
    limits.check_rows(len(rows))
    if any(rows):
        return rows
    if path.suffix.lower() in (".csv", ".tsv"):
        raise ValueError(f"{path.name} has a line with the names of columns, and no row below it: add the texts there.")
    raise ValueError(f"{path.name} holds no row: write an object for each text, as {EXAMPLE_JSON_ROW}.")


def table_of(given: Sequence[str] | None) -> Path | None:
    """The table among files that were given; None if they are documents."""
    paths = [Path(path) for path in given or ()]
    if len(paths) == 1 and paths[0].suffix.lower() in ENDINGS:
        return paths[0]
    if len(paths) > 1 and all(path.suffix.lower() in TABLE_ENDINGS for path in paths):
        raise ValueError(f"{paths[0].name} and {paths[1].name} are both tables: choose one at a time.")
    return None


def shortened(text: Any, max_characters: int = 180) -> str:
    """Shorten a text for a cell: Gradio shows 200 characters and would cut within a word."""
    text = " ".join(str(text or "").split())
    return text if len(text) <= max_characters else f"{text[:max_characters].rsplit(' ', 1)[0]} …"


def texts_of_file(
    path: Path, text_column: str, label_column: str | None, limits: PageLimits, encoding: str = UNICODE
) -> LabeledTexts:
    """Read the texts and labels of a file; an empty label is None."""
    rows = rows_of_upload(path, limits, encoding)
    columns_of(rows, text_column, label_column)
    texts = []
    labels = []
    for row in rows:
        label = label_name(row.get(label_column))
        text = row.get(text_column)
        if isinstance(text, str) and text.strip():
            texts.append(text)
            labels.append(label and label.strip())
    if not texts:
        first = shortened(rows[0].get(text_column), 60)
        raise ValueError(
            f"No row has a text in the column {text_column!r}; the first one holds {first!r}: choose another column."
        )
    return _checked(LabeledTexts(texts, labels, left_out=len(rows) - len(texts)), limits)


def read_upload(path: Path, encoding: str = UNICODE) -> Iterator[Row]:
    """Read the rows of an uploaded file, with errors that name the file without the server's folder."""
    from ...classifier.row_files import read_rows

    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"This page cannot read {path.name}: choose a file that ends in {', '.join(ENDINGS)}.")
    with open(path, "rb") as file:
        first = file.read(10_000)
    has_control_characters = re.search(rb"[\0-\x08]", first) and not first.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    if has_control_characters or first.startswith(UNREADABLE_BEGINNINGS):
        raise ValueError(f"{path.name} is not a text file: open it in the program that made it, and export it as CSV.")
    try:
        yield from read_rows(path, **table_settings(path, encoding))
    except ValueError as error:
        if isinstance(error.__cause__, UnicodeDecodeError) or isinstance(error, UnicodeDecodeError):
            raise UnicodeError(f"{path.name} is not encoded in {encoding}: choose another encoding.") from error
        for message, sentence in PARSER_ERRORS.items():
            if message in str(error):
                raise ValueError(f"{path.name} cannot be used: {sentence}.") from error
        raise ValueError(str(error).replace(str(path), path.name)) from error


def _checked(given: LabeledTexts, limits: PageLimits) -> LabeledTexts:
    """Refuse no texts, and texts and labels beyond the limits."""
    if not given.texts:
        raise ValueError("There is no text to add: write one, or choose a file.")
    limits.check_rows(len(given.texts))
    limits.check_texts(given.texts)
    limits.check_labels(label for label in given.labels if label is not None)
    return given


def rows_to_classify(path: Path, text_column: str, limits: PageLimits, encoding: str = UNICODE) -> list[PlannedText]:
    """Read the rows of a file, to classify them."""
    rows = rows_of_upload(path, limits, encoding)
    columns_of(rows, text_column)
    texts = [row[text_column] if isinstance(row.get(text_column), str) else "" for row in rows]
    limits.check_texts(texts)
    return [PlannedText(shortened(text), {"text": text}, row=row) for text, row in zip(texts, rows, strict=True)]
