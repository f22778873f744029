"""load_unlabeled_texts: documents without labels, beside labeled examples of the same kind."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .holding_out import fingerprints_of
from .load_documents import load_documents
from .unusable_rows import EMPTY, KEPT, NOT_A_STRING, describe_dropped, keep_usable, refuse_other_types

if TYPE_CHECKING:
    from collections.abc import Iterable

    from datasets import Dataset

logger = logging.getLogger(__name__)


def load_unlabeled_texts(
    source: str | Path,
    text_column: str = "text",
    text_pair_column: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
    held_out: Iterable[Dataset] = (),
) -> Dataset:
    """What ``load_documents`` reads, as ``text`` and maybe ``text_pair``. What cannot be used is dropped and counted.

    Texts that are ``held_out`` are dropped too: figures are to hold for texts that nothing was learned from.
    """
    options = {"csv_separator": csv_separator, "encoding": encoding}
    rows = load_documents(source, test_size=0, text_column=text_column, **options)["train"]
    if rows.column_names == ["text"]:  # of .txt files
        text_column = "text"
    columns = {"text": text_column} | ({"text_pair": text_pair_column} if text_pair_column else {})
    for name, column in columns.items():
        if column not in rows.column_names:
            found = sorted(rows.column_names)
            raise ValueError(f"There is no column {column!r} in {source}, only {found}: choose {name}_column.")
        refuse_other_types(rows.features[column], column, f"{name}_column")
    texts = rows.select_columns(list(columns.values())).rename_columns({old: new for new, old in columns.items()})
    outcomes = [_outcome(values) for values in zip(*(texts[name][:] for name in columns), strict=True)]
    usable = keep_usable(texts, outcomes)
    known = [fingerprints_of(examples, list(columns)) for examples in held_out]
    new = np.flatnonzero(~np.isin(fingerprints_of(usable, list(columns)), np.concatenate(known) if known else []))
    message = f"{len(new)} documents without labels: {source}."
    if dropped := describe_dropped(Counter(outcomes)):
        message += f" Dropped: {dropped}."
    if len(new) < len(usable):
        message += f" {len(usable) - len(new)} are held-out examples, and left out."
    if not len(new):
        raise ValueError(f"There is nothing to learn from: {message} Give other documents, or none.")
    logger.log(logging.INFO if len(new) == len(rows) else logging.WARNING, message)
    return usable if len(new) == len(usable) else usable.select(new)


def _outcome(texts: tuple[object, ...]) -> str:
    if not all(isinstance(text, str) for text in texts):
        return NOT_A_STRING
    return KEPT if all(text.strip() for text in texts) else EMPTY
