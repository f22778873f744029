"""Where files would be sorted, before anything moves: the plan as a table, and the reason of an answer in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..reading.characters import replace_lone_surrogates
from ..reading.origins import describe_place
from .row_files import write_rows
from .sorted_files import SortedFile, sub_folder_of

PLAN_COLUMNS = ("file", "label", "page", "reason", "confidence", "destination")
NOT_SURE = "not sure enough"
SHOWN_WORDS = 3


def page_of(answer: Mapping[str, Any]) -> str | None:
    """Name the page of an answer: its number, several, or "sheet Prices"; None if it is not known."""
    described = describe_place(answer)
    return described.removeprefix("pages ").removeprefix("page ") or None


def reason_of(answer: Mapping[str, Any]) -> str | None:
    """Say why an answer is as it is: why a file has no label, or the words that decided, if they were asked for."""
    if answer.get("reason"):
        detail = answer.get("detail")
        return f"{answer['reason']} ({detail})" if detail else answer["reason"]
    if answer["label"] is None:
        return NOT_SURE
    words = [one["word"] for one in answer.get("explanation", {}).get("words", ())]
    return ", ".join(words[:SHOWN_WORDS]) or None


def write_plan(planned: Sequence[SortedFile], source: Path, path: Path) -> None:
    """Write a plan as a CSV file that is safe to open in a spreadsheet; files are named as below ``source``."""
    rows = [
        {
            "file": _shown_name(entry, source),
            "label": entry.label,
            "page": entry.page,
            "reason": entry.reason,
            "confidence": entry.score,
            "destination": entry.target,
        }
        for entry in planned
    ]
    write_rows(path, lambda: rows, PLAN_COLUMNS, safe_csv=True)


def plan_lines(planned: Iterable[SortedFile], source: Path) -> list[str]:
    """Describe each file of a plan in a line."""
    return [f"{_shown_name(entry, source)} -> {entry.target}{remark(entry)}" for entry in planned]


def count_by_folder(planned: Iterable[SortedFile]) -> dict[str, int]:
    """Count the files of each sub-folder."""
    return dict(sorted(Counter(sub_folder_of(entry.target) for entry in planned).items()))


def remark(entry: SortedFile) -> str:
    """The confidence, the page and the reason of an answer, in brackets."""
    score = None if entry.score is None else f"{entry.score:.0%}"
    page = f"page {entry.page}" if str(entry.page)[0].isdigit() else entry.page
    parts = [part for part in (score, page, entry.reason) if part]
    return f" ({'; '.join(parts)})" if parts else ""


def _shown_name(entry: SortedFile, source: Path) -> str:
    """The name of a file below a folder, with its folders; elsewhere its whole path."""
    path = Path(entry.source or "")
    folder = source.resolve()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) and path != folder else path.as_posix()
    return replace_lone_surrogates(name)
