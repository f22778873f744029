"""Pasted and uploaded texts, with and without labels, and files to classify."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..text.columns import columns_of
from ..text.example_texts import load_example_texts
from .sessions import Limits, Session, counted

ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".txt")  # not the compressed ones: they may unpack to anything
UNICODE = "utf-8"
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar |": "|"}
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
    """The rows of a file, if they are not too many; ``reading`` are its encoding and its separator."""
    rows = list(itertools.islice(read_upload(path, *reading), limits.rows + 1))
    limits.check_rows(len(rows))
    return rows


def shortened(text: Any, most: int = 240) -> str:
    """A text that fits into a cell."""
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
    texts, labels = [text for text, _ in usable], [label for _, label in usable]
    return _checked(Texts(texts, labels, len(rows) - len(usable)), limits)


def read_upload(path: Path, encoding: str = UNICODE, separator: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an uploaded file. Errors name it without the server's folder."""
    from ..neighbors.row_files import read_rows

    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"This page cannot read {path.name}: choose a file that ends in {', '.join(ENDINGS)}.")
    with open(path, "rb") as file:
        first = file.read(10_000)
    if re.search(rb"[\0-\x08]", first) and not first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise ValueError(f"{path.name} is not a text file: open it in the program that made it, and export it as CSV.")
    try:
        yield from read_rows(path, **_reading(path, encoding, separator))
    except ValueError as error:
        if isinstance(error.__cause__, UnicodeDecodeError) or isinstance(error, UnicodeDecodeError):
            raise UnicodeError(f"{path.name} is not encoded in {encoding}: choose another encoding.") from error
        raise ValueError(str(error).replace(str(path), path.name)) from error


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
NO_ANSWER = "(not sure enough)"


def classify_upload(
    session: Session, path: Path, text_column: str, error: float | None, *reading: str | None
) -> tuple[Path, list[list[str]], str]:
    """The rows of a file with ``label`` and ``score``, the first ones to show, and a sentence on it.

    With ``error`` unsure texts get no label, so that at most such a share of the answers is wrong.
    """
    from ..neighbors.classify_file import PredictionFiles, classify_file
    from ..neighbors.row_files import read_rows

    _ = session.store
    rows, target = rows_of(path, session.limits, *reading), session.folder / "answers.csv"
    columns_of(rows, text_column)
    session.limits.check_texts(str(row.get(text_column)) for row in rows)
    files = PredictionFiles(path, target, text_column, safe_csv=True, **_reading(path, *reading))
    outcome = classify_file(session.pipe, files, overwrite=True, **({"reject": error} if error else {}))
    shown = f"input_{text_column}" if text_column in ("label", "score") else text_column
    first = [
        [shortened(row[shown]), row["label"] or NO_ANSWER if row["score"] else "", f"{float(row['score'] or 0):.0%}"]
        for row in itertools.islice(read_rows(target), PREVIEW)
    ]
    said = f"Classified {counted(outcome.rows - outcome.without_text - outcome.rejected, 'row')}."
    for count, what in ((outcome.rejected, "not sure enough"), (outcome.without_text, "without a text")):
        said += f" {counted(count, 'row')} {what} got no label." if count else ""
    return target, first, said
