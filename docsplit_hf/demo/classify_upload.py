"""An uploaded file, classified into one to download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .read_texts import count_rows, read_upload
from .session import Session

PREVIEW = 20
SHOWN = 300  # characters of a text


def classify_upload(
    session: Session, path: Path, text_column: str, tell: Callable[[int, int], Any] = lambda done, rows: None
) -> tuple[Path, list[list[str]], str]:
    """The rows of a file with ``label`` and ``score``, the first ones to show, and a sentence on it.

    ``tell`` is told how many rows are done, of how many.
    """
    from ..neighbors.row_files import blocks_of, write_rows

    _ = session.store
    total, columns = count_rows(path, session.limits)
    if text_column not in columns:
        raise ValueError(f"{path.name} has no column {text_column!r}, only {columns}: choose another one.")
    names = {column: f"input_{column}" if column in ("label", "score") else column for column in columns}
    answered: list[dict[str, Any]] = []
    tell(0, total)
    for block in blocks_of(read_upload(path)):
        found = _answers(session, [row.get(text_column) for row in block])
        answered += [
            {names[name]: value for name, value in row.items()} | one for row, one in zip(block, found, strict=True)
        ]
        tell(len(answered), total)
    target = session.folder / "answers.csv"
    write_rows(target, lambda: answered, [*names.values(), "label", "score"])
    first = [
        [str(row.get(names[text_column]))[:SHOWN], row["label"] or "", f"{row['score']:.0%}" if row["label"] else ""]
        for row in answered[:PREVIEW]
    ]
    said = f"{total:,} rows were classified."
    if empty := sum(row["label"] is None for row in answered):
        said += f" {empty:,} of them have no text, and no answer."
    return target, first, said


def _answers(session: Session, texts: list[Any]) -> list[dict[str, Any]]:
    usable = [isinstance(text, str) and bool(text.strip()) for text in texts]
    found = iter(session.pipe([text for text, is_usable in zip(texts, usable, strict=True) if is_usable]))
    return [next(found) if is_usable else {"label": None, "score": None} for is_usable in usable]
