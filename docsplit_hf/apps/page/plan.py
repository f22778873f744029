"""The plan: texts and documents that were classified, and what a visitor says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .changes import give_label
from .sessions import PlannedText, Row, Session, counted, percentage

NO_ANSWER = "no answer"
CONFIRMED = "confirmed"
CORRECTED = "corrected"
# Columns of the table, with their widths.
DOCUMENT_COLUMNS = {"File": "30%", "Label": "18%", "Page": "13%", "Reason": "24%", "Sure": "15%"}
TEXT_COLUMNS = {"Text": "44%", "Label": "19%", "Reason": "22%", "Sure": "15%"}
ANSWERS = "answers.csv"
PREVIEW_ROWS = 50  # answers to a table that the page shows
RESERVED_COLUMNS = ("label", "score")  # of answers; columns of a table with these names are renamed


def how_sure(one: PlannedText) -> str:
    """How sure a label is, in a word."""
    return f"✓ {one.checked}" if one.checked else percentage(one.score)


def table_rows(planned: Sequence[PlannedText]) -> tuple[dict[str, str], list[list[str]]]:
    """The columns with their widths, and the rows, of the table of a plan."""
    if not planned or planned[0].file is None:
        shown = planned[:PREVIEW_ROWS]
        return TEXT_COLUMNS, [[one.name, one.label or NO_ANSWER, one.reason, how_sure(one)] for one in shown]
    return DOCUMENT_COLUMNS, [
        [one.name, one.label or NO_ANSWER, one.page, one.reason, how_sure(one)] for one in planned
    ]


def with_earlier_checks(planned: Sequence[PlannedText], earlier: Sequence[PlannedText]) -> tuple[PlannedText, ...]:
    """Keep what a visitor has said about the same texts before."""
    known = {one.given["text"]: one for one in earlier if one.checked}
    kept = []
    for one in planned:
        before = known.get(one.given["text"], one)
        kept.append(replace(one, label=before.label, checked=before.checked))
    return tuple(kept)


def check_answer(session: Session, row: int, label: str) -> str:
    """Learn the label of a text of the plan: the one that it has, or another."""
    one = session.planned[row]
    label = label.strip()
    give_label(session, one.given["text"], label, learn_now=False, given=one.given)
    checked = CONFIRMED if label == one.label else CORRECTED
    session.planned = (*session.planned[:row], replace(one, label=label, checked=checked), *session.planned[row + 1 :])
    return f"{one.name[:80]}: {label}, {checked}. The next classification uses it."


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
    """Write the file of the answers, with the labels that a visitor has chosen."""
    from ...classifier.row_files import write_rows

    rows: list[Row] = []
    for one in session.planned:
        own = {f"input_{name}" if name in RESERVED_COLUMNS else name: value for name, value in one.row.items()}
        answer = {"label": one.label, "score": one.score}
        if one.file is not None:
            answer |= {"page": one.page, "reason": one.checked or one.reason}
        rows.append({**own, **answer})
    rows += session.unread
    target = session.folder / ANSWERS
    write_rows(target, lambda: rows, list(dict.fromkeys(name for row in rows for name in row)), safe_csv=True)
    return target
