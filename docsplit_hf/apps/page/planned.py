"""The plan: texts and documents that were classified, where they would go, and what a visitor says about them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...classifier.sorted_files import Targets
from .changes import give_label
from .sessions import counted, percentage

if TYPE_CHECKING:
    from .sessions import PlannedText, Row, Session

NO_ANSWER = "no answer"
CONFIRMED = "confirmed"
CORRECTED = "corrected"
DOCUMENT_HEADERS = ["File", "Label", "Page", "Reason", "Sure", "Goes to"]
TEXT_HEADERS = ["Text", "Label", "Reason", "Sure"]
ANSWERS = "answers.csv"
SORTED = "sorted.zip"
PREVIEW_ROWS = 50  # answers to a table that the page shows
ANSWER_COLUMNS = ("label", "score")  # beside those of a table


def how_sure(one: PlannedText) -> str:
    """How sure a label is, in a word."""
    return f"✓ {one.checked}" if one.checked else percentage(one.score)


def destinations_of(planned: Sequence[PlannedText]) -> list[str]:
    """Where each document would go: the folder of its label, and a free name in it."""
    targets = Targets(None, {one.label for one in planned if one.label is not None})
    return [targets.choose(one.name.rpartition("/")[2], {"label": one.label, "score": one.score}) for one in planned]


def table_rows(planned: Sequence[PlannedText]) -> tuple[list[str], list[list[str]]]:
    """The headers and the rows of the table of a plan."""
    if not planned or planned[0].file is None:
        shown = planned[:PREVIEW_ROWS]
        return TEXT_HEADERS, [[one.name, one.label or NO_ANSWER, one.reason, how_sure(one)] for one in shown]
    rows = []
    for one, destination in zip(planned, destinations_of(planned), strict=True):
        rows.append([one.name, one.label or NO_ANSWER, one.page, one.reason, how_sure(one), destination])
    return DOCUMENT_HEADERS, rows


def with_earlier_checks(planned: Sequence[PlannedText], earlier: Sequence[PlannedText]) -> tuple[PlannedText, ...]:
    """Keep what a visitor has said about the same texts before."""
    known = {one.given["text"]: one for one in earlier if one.checked}
    kept = []
    for one in planned:
        before = known.get(one.given["text"], one)
        kept.append(replace(one, label=before.label, checked=before.checked))
    return tuple(kept)


def check_answer(session: Session, row: int, label: str | None) -> str:
    """Learn the label of a text of the plan; None confirms the one that it has."""
    one = session.planned[row]
    wanted = one.label if label is None else label.strip()
    give_label(session, one.given["text"], wanted or "", learn_now=False, given=one.given)
    checked = CONFIRMED if wanted == one.label else CORRECTED
    session.planned = (*session.planned[:row], replace(one, label=wanted, checked=checked), *session.planned[row + 1 :])
    return f"{one.name[:80]}: {wanted}, {checked}. The next classification uses it."


def confirm_answer(session: Session, row: int, _: str) -> str:
    """Learn that the answer to a text of the plan is right."""
    return check_answer(session, row, None)


def next_unchecked(planned: Sequence[PlannedText], row: int) -> int | None:
    """The first text behind a row, and then before it, that was not checked; None if all were."""
    order = [*range(row + 1, len(planned)), *range(row)]
    return next((number for number in order if not planned[number].checked), None)


def describe_plan(planned: Sequence[PlannedText]) -> str:
    """A caption of the table of a plan."""
    is_table = not planned or planned[0].file is None
    first = f", the first {PREVIEW_ROWS} here" if is_table and len(planned) > PREVIEW_ROWS else ""
    checked = sum(bool(one.checked) for one in planned)
    done = f", {checked:,} checked" if checked else ""
    texts = counted(len(planned), "text" if is_table else "document")
    return f"{texts}{first}{done}: click one to see why, to confirm it, or to correct it"


def write_answers(session: Session) -> Path:
    """Write the file of the answers, with the labels and places that a visitor has chosen."""
    from ...classifier.row_files import write_rows

    rows: list[Row] = []
    for one, destination in zip(session.planned, destinations_of(session.planned), strict=True):
        own = {f"input_{name}" if name in ANSWER_COLUMNS else name: value for name, value in one.row.items()}
        answer = {"label": one.label, "score": one.score}
        if one.file is not None:
            answer |= {"page": one.page, "reason": one.checked or one.reason, "destination": destination}
        rows.append({**own, **answer})
    rows += session.unread
    target = session.folder / ANSWERS
    write_rows(target, lambda: rows, list(dict.fromkeys(name for row in rows for name in row)), safe_csv=True)
    return target


def write_sorted(session: Session) -> Path:
    """Write a zip file with the documents of the plan in the folders of their labels."""
    if not session.planned or session.planned[0].file is None:
        raise ValueError("Classify documents first: these can be put into folders.")
    target = session.folder / SORTED
    with zipfile.ZipFile(target, "w") as archive:
        for one, destination in zip(session.planned, destinations_of(session.planned), strict=True):
            archive.write(one.file, destination)
        archive.write(session.folder / ANSWERS, ANSWERS)
    return target
