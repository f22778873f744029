"""Reading documents with pairs of them that cite each other or not: the files of LRA, or a folder of JSON lines."""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...text.files import read_json_rows
from ...text.surrogates import replace_lone_surrogates

logger = logging.getLogger(__name__)

LRA_FILE = "new_aan_pairs.{}.tsv"
JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".json")
SPLITS = ("train", "test")

Pair = tuple[str, str, int]


class CitationPairs(NamedTuple):
    """Documents, and which of them are paired.

    Args:
        documents: The text of each document that is in a pair, by its id.
        train: Pairs of ids with 1 where the first cites the second, else 0.
        test: The same to test on.

    Example:

        >>> CitationPairs({"a": "One.", "b": "Two."}, [("a", "b", 1)], [("b", "a", 0)]).train
        [('a', 'b', 1)]
    """

    documents: dict[str, str]
    train: list[Pair]
    test: list[Pair]


def has_citation_pairs(folder: Path) -> bool:
    """Whether a folder is laid out as one with pairs of documents.

    Args:
        folder: The folder; nothing in it is opened.

    Returns:
        True if it has LRA's files, or documents by themselves.

    Example:

        >>> has_citation_pairs(Path("."))
        False
    """
    return (folder / LRA_FILE.format("train")).is_file() or _json_file(folder, "docs") is not None


def read_citation_pairs(folder: Path) -> CitationPairs:
    """Read a folder with pairs of documents.

    Either the files of the Long Range Arena, ``new_aan_pairs.train.tsv`` and ``new_aan_pairs.test.tsv``: label, two
    ids, two texts, separated by tabs, without a header or quotation marks. In the release labels are written as ``0.0``
    and ``1.0``, and texts as Python bytes (``b'...'``), which are decoded. Its third file, ``eval``, is not used.

    Or JSON lines, also with ``.gz``: ``docs.jsonl`` with ``id`` and ``text``, ``train.jsonl`` and ``test.jsonl`` with
    ``id_a``, ``id_b`` and ``label``.

    Pairs that cannot be used are dropped and counted in the log: a label other than 0 and 1, a document that is empty,
    without a text, or not there.

    Args:
        folder: The folder.

    Returns:
        Documents and pairs. Documents that are in no pair are left out.

    Raises:
        FileNotFoundError: If the folder or a file of it is not there.
        ValueError: If a split has no usable pair, or pairs of one label only.

    Example:

        >>> import json, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> pairs = [{"id_a": "x", "id_b": "y", "label": 1}, {"id_a": "y", "id_b": "x", "label": 0}]
        >>> files = {"docs": [{"id": "x", "text": "One."}, {"id": "y", "text": "Two."}], "train": pairs, "test": pairs}
        >>> for name, rows in files.items():
        ...     _ = (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + chr(10) for row in rows))
        >>> read_citation_pairs(folder).test
        [('x', 'y', 1), ('y', 'x', 0)]
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    is_lra = (folder / LRA_FILE.format("train")).is_file()
    documents, splits = (_read_lra if is_lra else _read_json)(folder)
    for name, pairs in splits.items():
        if len({label for _, _, label in pairs}) < 2:
            raise ValueError(
                f"The pairs of {name} in {folder} do not have the labels 0 and 1 both, {len(pairs)} can be used: there "
                "is nothing to tell apart."
            )
    used = {document for pairs in splits.values() for first, second, _ in pairs for document in (first, second)}
    return CitationPairs({key: text for key, text in documents.items() if key in used}, **splits)


def _read_json(folder: Path) -> tuple[dict[str, str], dict[str, list[Pair]]]:
    files = {name: _json_file(folder, name) for name in ("docs", *SPLITS)}
    missing = [name for name, file in files.items() if file is None]
    if missing:
        raise FileNotFoundError(
            f"{folder} has no {missing[0]}.jsonl: pairs need docs.jsonl (id, text), train.jsonl and test.jsonl (id_a, "
            f"id_b, label), or LRA's {LRA_FILE.format('train')} and {LRA_FILE.format('test')}."
        )
    documents, empty = {}, 0
    for row in _rows(files["docs"], ("id", "text")):
        if isinstance(row["text"], str) and row["text"].strip():
            documents[str(row["id"])] = replace_lone_surrogates(row["text"])
        else:
            empty += 1
    if empty:
        logger.warning(f"{files['docs'].name}: {empty} documents are empty or no strings. Their pairs are dropped.")
    splits = {}
    for name in SPLITS:
        outcomes: Counter[str] = Counter()
        splits[name] = []
        for row in _rows(files[name], ("id_a", "id_b", "label")):
            first, second, label = str(row["id_a"]), str(row["id_b"]), _label(row["label"])
            known = first in documents and second in documents
            outcomes["kept" if known and label is not None else "without a document" if not known else "no label"] += 1
            if known and label is not None:
                splits[name].append((first, second, label))
        _log(name, outcomes)
    return documents, splits


def _read_lra(folder: Path) -> tuple[dict[str, str], dict[str, list[Pair]]]:
    documents: dict[str, str] = {}
    splits = {}
    for name in SPLITS:
        file = folder / LRA_FILE.format(name)
        if not file.is_file():
            raise FileNotFoundError(f"{folder} has no {file.name}.")
        outcomes: Counter[str] = Counter()
        splits[name] = []
        with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                fields = line.rstrip("\r\n").split("\t")
                label = _label(fields[0])
                if len(fields) != 5:
                    outcomes[f"of {len(fields)} fields instead of 5"] += 1
                elif label is None:
                    outcomes["no label"] += 1
                else:
                    outcomes[_keep_texts(documents, fields)] += 1
                    if fields[1] in documents and fields[2] in documents:
                        splits[name].append((fields[1], fields[2], label))
        _log(name, outcomes)
    return documents, splits


def _keep_texts(documents: dict[str, str], fields: list[str]) -> str:
    """Keep the texts of a line of LRA that are new, and say what became of the line."""
    for key, field in ((fields[1], fields[3]), (fields[2], fields[4])):
        if key not in documents:  # the same text stands in each of the many pairs of a document
            text = _decode(field)
            if text is None or not text.strip():
                return "without a document"
            documents[key] = text
    return "kept"


def _decode(field: str) -> str | None:
    """The text that a field of LRA holds, None if it begins like Python's bytes and cannot be read as such."""
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


def _rows(file: Path, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    for number, row in enumerate(read_json_rows(file), start=1):
        for column in columns:
            if column not in row:
                raise ValueError(f"Row {number} of {file.name} has no {column!r}, only {sorted(row)}.")
        yield row


def _json_file(folder: Path, name: str) -> Path | None:
    files = (folder / f"{name}{ending}" for ending in JSON_ENDINGS)
    return next((file for file in files if file.is_file()), None)


def _log(name: str, outcomes: Counter[str]) -> None:
    dropped = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()) if outcome != "kept")
    message = f"{name}: kept {outcomes['kept']} of {outcomes.total()} pairs."
    logger.log(logging.WARNING if dropped else logging.INFO, f"{message} Dropped: {dropped}." if dropped else message)
