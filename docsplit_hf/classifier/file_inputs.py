"""Inputs of a pipeline that are files or folders: they are found, read, and become texts with their places."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..fitting.prediction import Answer
from ..fitting.texts_and_labels import as_list, texts_and_pairs
from ..reading.document_folders import name_of_document
from ..reading.files.failures import FailedFile, UnreadableFile
from ..reading.files.finding import find_files
from ..reading.files.load_files import default_cache_dir
from ..reading.files.places import FileText
from ..reading.files.reader import read_files
from ..reading.origins import FILE_COLUMN, PLACES_COLUMN, Origin, make_origin

logger = logging.getLogger(__name__)

SHOWN_FAILURES = 3  # in a log message


class FileInput(NamedTuple):
    """A file to read, and its name in answers."""

    path: Path
    name: str


class GivenTexts(NamedTuple):
    """The texts of n inputs, without those of files that could not be read."""

    texts: list[str]
    pairs: list[str | None]
    origins: list[Origin | None] | None  # None if no text comes from a file
    numbers: list[int]  # of the inputs, from 0
    failed: dict[int, FailedFile]  # by the number of the input

    def in_order(self, values: Sequence[Any]) -> list[Any]:
        """Put a value for each text in the order of the inputs, with None for files that were not read."""
        ordered: list[Any] = [None] * (len(self.texts) + len(self.failed))
        for number, value in zip(self.numbers, values, strict=True):
            ordered[number] = value
        return ordered


def expand_paths(given: Any) -> Any:
    """Turn a path of a file, a folder or a pattern, or paths among other inputs, into files to read; keep all else.

    Files of a folder are named by their paths below it.
    """
    if isinstance(given, Path):
        return [FileInput(path, name_of_document(path, given)) for path in find_files(given)]
    if not isinstance(given, list):
        return given
    return [FileInput(item, name_of_document(item, item)) if isinstance(item, Path) else item for item in given]


def labels_of_folders(files: Sequence[FileInput], folder: Path) -> list[str]:
    """Return the first sub-folder of each file as its label."""
    labels = []
    for file in files:
        label, slash, _ = file.name.partition("/")
        if not slash:
            raise ValueError(
                f"{file.path} is in no sub-folder of {folder}, so it has no label: move it into a folder named after "
                "its label, or give labels."
            )
        labels.append(label)
    return labels


def read_inputs(given: Any, first: int = 0, show_progress: bool = False) -> GivenTexts:
    """Read the files among the inputs; ``first`` is the number of the first input in errors.

    Raises:
        TypeError: If an input is neither a text, nor a pair of texts, nor a file.
    """
    items = as_list(given)
    if isinstance(items, str):
        raise TypeError("Expected a list of texts, got one string: pass [text].")
    items = [FileInput(item, name_of_document(item, item)) if isinstance(item, Path) else item for item in items]
    paths = [item.path for item in items if isinstance(item, FileInput)]
    found = iter(())
    if paths:
        found = read_files(paths, cache_dir=default_cache_dir(), show_progress=show_progress)
    kept: list[Any] = []
    origins: list[Origin | None] = []
    numbers: list[int] = []
    failed: dict[int, FailedFile] = {}
    for number, item in enumerate(items):
        if isinstance(item, FileInput):
            read = next(found)
            if not isinstance(read, FileText):
                failed[number] = read._replace(file=item.name)
                continue
            kept.append(read.text)
            origins.append(Origin(item.name, read.places))
        else:
            kept.append(item)
            origins.append(_origin_of(item))
        numbers.append(number)
    texts, pairs = texts_and_pairs(kept, first)
    has_origins = any(origin is not None for origin in origins)
    return GivenTexts(texts, pairs, origins if has_origins else None, numbers, failed)


def _origin_of(item: Any) -> Origin | None:
    """Origin of a text that was read from a file earlier."""
    return make_origin(item.get(FILE_COLUMN), item.get(PLACES_COLUMN)) if isinstance(item, dict) else None


def raise_if_unreadable(answer: Answer | list[Answer]) -> None:
    """Raise UnreadableFile for the answer to a file that could not be read."""
    best = answer[0] if isinstance(answer, list) else answer
    if best["score"] is None:
        raise UnreadableFile(best["file"], best["reason"], best["remedy"], best.get("detail", ""))


def with_unreadable(answers: Sequence[Any], given: GivenTexts, best_only: bool) -> list[Any]:
    """Put the answers to texts in the order of the inputs, with answers for files that could not be read."""
    if not given.failed:
        return list(answers)
    ordered = given.in_order(answers)
    for number, failed in given.failed.items():
        answer = Answer(label=None, score=None, reason=failed.reason, remedy=failed.remedy, file=failed.file)
        if failed.detail:
            answer["detail"] = failed.detail
        ordered[number] = answer if best_only else [answer]
    return ordered


def warn_of_failures(failed: Sequence[FailedFile], count: int) -> None:
    """Log the files that could not be read, of ``count`` files, by reason."""
    if not failed:
        return
    reasons = Counter(one.reason for one in failed)
    shown = [f"{one.file} ({one.reason}: {one.remedy})" for one in failed[:SHOWN_FAILURES]]
    if len(failed) > SHOWN_FAILURES:
        shown.append("...")
    logger.warning(
        "%d of %d files could not be read: %s. %s",
        len(failed),
        count,
        ", ".join(f"{times} {reason}" for reason, times in reasons.most_common()),
        "; ".join(shown),
    )
