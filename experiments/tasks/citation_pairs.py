"""Read documents and labeled pairs of citing documents, from the files of LRA or a folder of JSON lines."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from docsplit_hf.reading.characters import replace_lone_surrogates
from docsplit_hf.reading.tables import read_json_rows

from ..evaluation.tasks import content_hash

logger = logging.getLogger(__name__)

LRA_FILE = "new_aan_pairs.{}.tsv"
JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".json")
SPLITS = ("train", "test")

Pair = tuple[str, str, int]  # two ids of documents, and 1 where the first cites the second, else 0
RawPair = tuple[Any, ...] | str  # two ids and a label as in the file, or the reason why a row is invalid


@dataclass(frozen=True, eq=False)
class PairTask:
    """Documents by id, and labeled pairs of them: whether the first cites the second."""

    name: str
    documents_by_id: dict[str, str]
    train: list[Pair]
    test: list[Pair]
    language: ClassVar[str] = "en"
    kind: ClassVar[str] = "pairs of documents"

    @cached_property
    def fingerprint(self) -> str:
        return content_hash(self.documents_by_id.items(), self.train, self.test)

    def with_pairs(self, train: list[Pair], test: list[Pair]) -> PairTask:
        """The task with these pairs; documents in no pair are left out."""
        used = set()
        for first, second, _ in (*train, *test):
            used |= {first, second}
        documents = {key: text for key, text in self.documents_by_id.items() if key in used}
        return PairTask(self.name, documents, train, test)

    @property
    def texts(self) -> list[str]:
        """The documents, without their ids."""
        return list(self.documents_by_id.values())

    @property
    def documents(self) -> list[tuple[str, ...]]:
        return [(text,) for text in self.texts]

    @property
    def sizes(self) -> dict[str, int]:
        return {"train": len(self.train), "test": len(self.test)}


def has_citation_pairs(folder: Path) -> bool:
    """Whether a folder has LRA's files or a ``docs`` file; no file is opened."""
    return (folder / LRA_FILE.format("train")).is_file() or _json_file(folder, "docs") is not None


def read_citation_pairs(folder: Path, name: str) -> PairTask:
    """Read a folder with pairs of documents; documents that are in no pair are left out.

    Either the files of the Long Range Arena, ``new_aan_pairs.train.tsv`` and ``new_aan_pairs.test.tsv``: label, two
    ids, two texts, separated by tabs, without a header or quotation marks. In the release labels are written as ``0.0``
    and ``1.0``, and texts as Python bytes (``b'...'``), which are decoded. Its third file, ``eval``, is not used.

    Or JSON lines, also with ``.gz``: ``docs.jsonl`` with ``id`` and ``text``, ``train.jsonl`` and ``test.jsonl`` with
    ``id_a``, ``id_b`` and ``label``.

    Pairs with another label than 0 and 1, or with an empty or missing document, are dropped and counted in the log.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    if (folder / LRA_FILE.format("train")).is_file():
        documents: dict[str, str] = {}
        rows = {split: _lra_rows(folder, split, documents) for split in SPLITS}
    else:
        files = _json_files(folder)
        documents = _json_documents(files["docs"])
        rows = {split: _json_values(files[split], ("id_a", "id_b", "label")) for split in SPLITS}
    splits = {split: _usable_pairs(rows[split], split, documents) for split in SPLITS}
    for split, pairs in splits.items():
        if len({label for *_, label in pairs}) < 2:
            raise ValueError(
                f"The pairs of {split} in {folder} do not have the labels 0 and 1 both, {len(pairs)} can be used: "
                "there is nothing to tell apart."
            )
    return PairTask(name, documents, [], []).with_pairs(**splits)


def _usable_pairs(rows: Iterable[RawPair], split: str, documents: Mapping[str, str]) -> list[Pair]:
    pairs: list[Pair] = []
    dropped: Counter[str] = Counter()
    for row in rows:
        if isinstance(row, str):
            dropped[row] += 1
            continue
        first = str(row[0])
        second = str(row[1])
        label = _label(row[2])
        if label is None:
            dropped["no label"] += 1
        elif first in documents and second in documents:
            pairs.append((first, second, label))
        else:
            dropped["without a document"] += 1
    message = f"{split}: kept {len(pairs)} of {len(pairs) + dropped.total()} pairs."
    if dropped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
        logger.warning(f"{message} Dropped: {reasons}.")
    else:
        logger.info(message)
    return pairs


def _lra_rows(folder: Path, split: str, documents: dict[str, str]) -> Iterator[RawPair]:
    """The pairs of a file of LRA; their texts are added to ``documents``."""
    file = folder / LRA_FILE.format(split)
    if not file.is_file():
        raise FileNotFoundError(f"{folder} has no {file.name}.")
    with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) != 5:
                yield f"of {len(fields)} fields instead of 5"
                continue
            label, first, second, *texts = fields
            for key, field in zip((first, second), texts, strict=True):
                if key not in documents:  # LRA repeats a text in each of its document's pairs
                    text = _decode(field)
                    if text is not None and text.strip():
                        documents[key] = text
            yield first, second, label


def _decode(field: str) -> str | None:
    """The text of a field of LRA; None if it begins like Python's bytes and cannot be parsed."""
    if field[:2] not in ("b'", 'b"'):
        return field
    try:
        return ast.literal_eval(field).decode("utf-8", errors="replace")
    except (SyntaxError, ValueError, AttributeError):
        return None


def _label(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number in (0, 1) else None


def _json_files(folder: Path) -> dict[str, Path]:
    files = {}
    for name in ("docs", *SPLITS):
        file = _json_file(folder, name)
        if file is None:
            raise FileNotFoundError(
                f"{folder} has no {name}.jsonl: pairs need docs.jsonl (id, text), train.jsonl and test.jsonl (id_a, "
                f"id_b, label), or LRA's {LRA_FILE.format('train')} and {LRA_FILE.format('test')}."
            )
        files[name] = file
    return files


def _json_file(folder: Path, name: str) -> Path | None:
    files = (folder / f"{name}{ending}" for ending in JSON_ENDINGS)
    return next((file for file in files if file.is_file()), None)


def _json_documents(file: Path) -> dict[str, str]:
    documents = {}
    empty = 0
    for key, text in _json_values(file, ("id", "text")):
        if isinstance(text, str) and text.strip():
            documents[str(key)] = replace_lone_surrogates(text)
        else:
            empty += 1
    if empty:
        logger.warning(f"{file.name}: {empty} documents are empty or no strings. Their pairs are dropped.")
    return documents


def _json_values(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(read_json_rows(file), start=1):
        for column in columns:
            if column not in row:
                raise ValueError(f"Row {number} of {file.name} has no {column!r}, only {sorted(row)}.")
        yield tuple(row[column] for column in columns)
