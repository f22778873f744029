"""An uploaded file, classified into one to download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .limits import counted
from .read_texts import columns_of, is_text, rows_of
from .session import Session

PREVIEW = 20
SHOWN = 300  # characters of a text


def classify_upload(
    session: Session, path: Path, text_column: str, encoding: str, tell: Callable[[int, int], Any]
) -> tuple[Path, list[list[str]], str]:
    """The rows of a file with ``label`` and ``score``, the first ones to show, and a sentence on it.

    ``tell`` is told how many rows are done, of how many.
    """
    from ..neighbors.row_files import blocks_of, write_rows

    _ = session.store
    rows = rows_of(path, session.limits, encoding)
    columns = columns_of(rows, text_column)
    session.limits.check_texts(str(row.get(text_column)) for row in rows)
    names = {column: f"input_{column}" if column in ("label", "score") else column for column in columns}
    answered: list[dict[str, Any]] = []
    for block in blocks_of(rows):
        tell(len(answered), len(rows))
        texts = [row.get(text_column) for row in block]
        found = iter(session.pipe(list(filter(is_text, texts))))
        answers = [next(found) if is_text(text) else {"label": None, "score": None} for text in texts]
        answered += [{names[name]: row[name] for name in row} | one for row, one in zip(block, answers, strict=True)]
    target = session.folder / "answers.csv"
    write_rows(target, lambda: answered, [*names.values(), "label", "score"])
    first = [
        [str(row.get(names[text_column]))[:SHOWN], row["label"] or "", f"{row['score']:.0%}" if row["label"] else ""]
        for row in answered[:PREVIEW]
    ]
    empty = sum(row["label"] is None for row in answered)
    said = f"Classified {counted(len(rows) - empty, 'row')}."
    return target, first, said + (f" {counted(empty, 'row')} without a text got no label." if empty else "")
