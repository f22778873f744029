"""Answers to inputs that are files: those that were not read get a reason, and folders can name labels."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..fitting.prediction import Answer
from ..reading.files.failures import FailedFile, UnreadableFile
from ..reading.inputs import FileInput, InputRow

logger = logging.getLogger(__name__)

SHOWN_FAILURES = 3  # in a log message


def labels_of_folders(files: Sequence[FileInput], folder: Path) -> list[str]:
    """Return the first sub-folder of each file as its label."""
    for file in files:
        if "/" not in file.name:
            raise ValueError(
                f"{file.path} is in no sub-folder of {folder}, so it has no label: move it into a folder named after "
                "its label, or give labels."
            )
    return [file.name.partition("/")[0] for file in files]


def raise_if_unreadable(answer: Answer | list[Answer]) -> None:
    """Raise UnreadableFile for the answer to a file that could not be read."""
    best = answer[0] if isinstance(answer, list) else answer
    if best["score"] is None:
        raise UnreadableFile(best["file"], best["reason"], best["remedy"], best.get("detail", ""))


def with_unreadable(given: Iterable[InputRow | FailedFile], answers: Iterable[Any], best_only: bool) -> list[Any]:
    """Return an answer for each input: that to its text, or one that says why its file could not be read."""
    found = iter(answers)
    return [_unreadable(one, best_only) if isinstance(one, FailedFile) else next(found) for one in given]


def _unreadable(failed: FailedFile, best_only: bool) -> Answer | list[Answer]:
    """The answer to a file that could not be read."""
    answer = Answer(label=None, score=None, reason=failed.reason, remedy=failed.remedy, file=failed.file)
    if failed.detail:
        answer["detail"] = failed.detail
    return answer if best_only else [answer]


def warn_of_failures(given: Sequence[InputRow | FailedFile]) -> None:
    """Log the files among inputs that could not be read, by reason."""
    failed = [one for one in given if isinstance(one, FailedFile)]
    if not failed:
        return
    reasons = Counter(one.reason for one in failed)
    shown = [f"{one.file} ({one.reason}: {one.remedy})" for one in failed[:SHOWN_FAILURES]]
    if len(failed) > SHOWN_FAILURES:
        shown.append("...")
    logger.warning(
        "%d of %d files could not be read: %s. %s",
        len(failed),
        len(given),
        ", ".join(f"{times} {reason}" for reason, times in reasons.most_common()),
        "; ".join(shown),
    )
