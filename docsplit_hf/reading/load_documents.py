"""Load unlabeled documents from the Hub, files, a folder or memory."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .holding_out import fingerprint, fingerprints_of, hold_out
from .origins import FILE_COLUMN, PLACES_COLUMN
from .source import DOCUMENT_COLUMNS, as_dataset, checked_kind, load_from_hub, load_path
from .tables import naming
from .usable_rows import NOT_A_STRING, check_columns, describe_dropped, keep_usable, outcome_of, refuse_other_types

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset, IterableDataset

logger = logging.getLogger(__name__)

STREAM_BUFFER = 1_000  # documents


def load_documents(
    source: str | Path | Dataset | IterableDataset | pd.DataFrame | pd.Series,
    config_name: str | None = None,
    split: str = "train",
    streaming: bool = False,
    test_size: int = 500,
    seed: int = 0,
    *,
    text_column: str = "text",
    csv_separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, Dataset | IterableDataset]:
    """Load unlabeled documents from any source.

    Args:
        source: A data set on the Hub or in memory; a ``.jsonl``, ``.json``, ``.csv``, ``.tsv``, ``.parquet`` or
            ``.txt`` file (also compressed with gzip); a folder, at any depth, of ``.txt`` files or of documents (PDF,
            Word, HTML, mail, ..., which also get the columns ``file`` and ``places``); a pattern such as
            ``"inbox/**/*.pdf"``; or a pandas DataFrame, or a Series of texts. A single ``.txt`` file has one document
            per line; in a folder each file is one document.
        config_name: Configuration of a data set on the Hub.
        split: Split of a data set on the Hub.
        streaming: Read during use instead of downloading and converting first. The training documents are shuffled
            through a buffer of 1,000. Processes and data loader workers share the shards (byte ranges of a ``.jsonl``
            file, row groups of a ``.parquet`` file, files of a folder), so the order depends on their number.
        test_size: Number of documents to hold out, 0 for none. They are drawn at random, at most a tenth of all; of a
            stream they are the first ones, which are read at once. ``train`` and ``test`` have no text in common.
        seed: Seed of the held-out documents and of the order of a stream.
        text_column: Column that decides whether documents are equal. If it does not exist, all columns do.
        csv_separator: Column separator of a ``.csv`` file. None: a comma, or a tab in ``.tsv``.
        encoding: Encoding of text files, such as ``"cp1252"``. None: UTF-8, or UTF-16 if a file begins with its byte
            order mark.

    Returns:
        ``train`` and, with ``test_size`` above 0, ``test``, which is always a ``Dataset``.

    Raises:
        FileNotFoundError: If the source looks like a path that does not exist, or a folder has no text.
        ValueError: If the format of a file is unknown, it cannot be read or is empty, or there are too few documents to
            hold any out.

    Example:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for i in range(20):
        ...     _ = (folder / f"{i}.txt").write_text(f"Document {i}. It has two sentences.")
        >>> documents = load_documents(folder)
        >>> {name: len(split) for name, split in documents.items()}
        {'train': 18, 'test': 2}
    """
    kind = checked_kind(source, csv_separator, encoding)
    import datasets  # only now: a missing file is refused at once

    if kind == "memory":
        loaded = as_dataset(source)
        loaded = loaded.to_iterable_dataset() if streaming and isinstance(loaded, datasets.Dataset) else loaded
    elif kind == "hub":
        loaded = load_from_hub(str(source), config_name, split=split, streaming=streaming)
    else:
        loaded = load_path(Path(source), streaming, csv_separator, encoding)
    if kind in ("documents", "text folder"):
        loaded = loaded.select_columns(list(DOCUMENT_COLUMNS) if kind == "documents" else ["text"])
    with nullcontext() if kind in ("memory", "hub") else naming(Path(source)):  # holding out reads a stream's beginning
        return _hold_out(loaded, test_size, seed, text_column)


def load_unlabeled_texts(
    source: str | Path,
    text_column: str = "text",
    text_pair_column: str | None = None,
    csv_separator: str | None = None,
    encoding: str | None = None,
    held_out: Iterable[Dataset] = (),
) -> Dataset:
    """Load documents with the columns ``text`` and, for pairs, ``text_pair``; for files, ``file`` and ``places``.

    Unusable texts are dropped and counted in the log. So are texts in ``held_out``, so that none of them is learned
    from.
    """
    loaded = load_documents(
        source, test_size=0, text_column=text_column, csv_separator=csv_separator, encoding=encoding
    )
    rows = loaded["train"]
    has_origins = {FILE_COLUMN, PLACES_COLUMN} <= set(rows.column_names)
    if rows.column_names == ["text"] or has_origins:  # of .txt files or documents
        text_column = "text"
    columns = {"text": text_column}
    if text_pair_column:
        columns["text_pair"] = text_pair_column
    check_columns(rows.column_names, columns, source)
    for name, column in columns.items():
        refuse_other_types(rows.features[column], column, f"{name}_column")
    origins = [FILE_COLUMN, PLACES_COLUMN] if has_origins else []
    texts = rows.select_columns([*columns.values(), *origins])
    texts = texts.rename_columns({old: new for new, old in columns.items()})
    values = zip(*(texts[name][:] for name in columns), strict=True)
    outcomes = [NOT_A_STRING if None in row else outcome_of(row) for row in values]
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


def _hold_out(
    dataset: Dataset | IterableDataset, test_size: int, seed: int, text_column: str = "text"
) -> dict[str, Dataset | IterableDataset]:
    import datasets

    if isinstance(dataset, datasets.IterableDataset):
        held_out = list(dataset.take(test_size))
        if len(held_out) < test_size:
            raise ValueError(
                f"The stream ends after {len(held_out)} documents, and test_size={test_size} would hold out all of "
                f"them: lower it to {len(held_out) // 10} or so, or load it without streaming."
            )
        if not held_out:
            return {"train": dataset.shuffle(seed=seed, buffer_size=STREAM_BUFFER)}
        # By content, not by position: each data loader worker skips in its own shards.
        columns = _identifying(list(held_out[0]), text_column)
        fingerprints = {fingerprint(row.get(column) for column in columns) for row in held_out}
        train = dataset.filter(_is_not_among, fn_kwargs={"columns": columns, "fingerprints": fingerprints})
        train = train.shuffle(seed=seed, buffer_size=STREAM_BUFFER)
        return {"train": train, "test": datasets.Dataset.from_list(held_out)}
    if test_size == 0:
        return datasets.DatasetDict({"train": dataset})
    if len(dataset) < 20:
        raise ValueError(
            f"{len(dataset)} documents are too few to hold any out: give more (a .txt file has one per line, a folder "
            "one per file), or set test_size=0."
        )
    fingerprints = fingerprints_of(dataset, _identifying(dataset.column_names, text_column))
    repeated = len(dataset) - len(set(fingerprints.tolist()))
    kept, held_out = hold_out(fingerprints, min(test_size, len(dataset) // 10), seed)
    if len(held_out) == 0:
        raise ValueError(
            f"{repeated} of {len(dataset)} documents repeat another one, so that none can be held out: give other "
            "documents, raise test_size, or set test_size=0."
        )
    if repeated:
        logger.info(
            f"{repeated} of {len(dataset)} documents repeat another one. Train and test have no document in common."
        )
    return datasets.DatasetDict({"train": dataset.select(kept), "test": dataset.select(held_out)})


def _identifying(columns: list[str], text_column: str) -> list[str]:
    """Columns that decide whether documents are equal."""
    return [text_column] if text_column in columns else sorted(columns)


def _is_not_among(row: Mapping[str, Any], columns: list[str], fingerprints: set[int]) -> bool:
    return fingerprint(row.get(column) for column in columns) not in fingerprints
