"""An uploaded file, classified into one to download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .read_texts import count_rows, separator_of
from .session import Session

PREVIEW = 20
SHOWN = 300  # characters of a text


def classify_upload(session: Session, path: Path, text_column: str) -> tuple[Path, list[list[Any]], str]:
    """The file with the answers, its first rows as text, label and probability, and a sentence on it."""
    from ..neighbors.classify_file import PredictionFiles, classify_file
    from ..neighbors.row_files import read_rows

    _ = session.store
    count_rows(path, session.limits)
    target = session.folder / "answers.csv"
    files = PredictionFiles(path, target, text_column, csv_separator=separator_of(path))
    try:
        outcome = classify_file(session.pipe, files, overwrite=True)
    except ValueError as error:
        raise ValueError(str(error).replace(str(path), path.name)) from error
    first = [
        [str(row.get(text_column))[:SHOWN], row["label"], f"{float(row['score']):.0%}" if row["score"] else ""]
        for row, _ in zip(read_rows(target), range(PREVIEW), strict=False)
    ]
    said = f"{outcome.rows:,} rows were classified."
    if outcome.without_text:
        said += f" {outcome.without_text:,} of them have no text, and no answer."
    return target, first, said
