"""Sorted and watched files: docs/folder_of_files.md."""

from __future__ import annotations

from .pages import Figures
from .records import content


def folder_of_files() -> Figures:
    watched = content("watched_folder.json")
    corrections = watched["corrections"]
    seconds = watched["seconds_from_resting_to_sorted"]
    return {
        "kills": float(watched["kills"]),
        "files": float(watched["files"]),
        "half": float(watched["half_written"]),
        "later": float(corrections["later_texts"]),
        "followed": float(corrections["later_texts_right"]),
        "without": float(corrections["later_texts_right_without_corrections"]),
        "one": seconds["one_by_one"]["median"],
        "burst": seconds["burst_of_73"]["longest"],
    }
