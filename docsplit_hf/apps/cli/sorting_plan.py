"""What commands print about a plan of sorted files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...classifier.sorted_files import SortedFile
from ...classifier.sorting_plan import count_by_folder, plan_lines, write_plan

SHOWN_FILES = 20


def show_plan(planned: list[SortedFile], source: Path, folder: Path) -> dict[str, Any]:
    """Print where files would be sorted, and write it beside the folder; return the figures for ``--json``."""
    path = folder.with_name(f"{folder.name}-plan.csv")
    write_plan(planned, source, path)
    for line in plan_lines(planned[:SHOWN_FILES], source):
        print(line)
    if len(planned) > SHOWN_FILES:
        print("...")
    by_folder = count_by_folder(planned)
    print(f"Nothing was copied. {len(planned):,} files would be sorted into {folder}, as listed in {path}:")
    for name, count in by_folder.items():
        print(f"  {count:7,}  {name}")
    return {"plan": str(path), "files": len(planned), "by_folder": by_folder}
