"""Remove the files that docsplit classify or watch sorted into folders, except those changed and the last copies.

docsplit undo sorted/
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...classifier.sorting.sorted_files import MANIFEST
from ...classifier.sorting.undo_sorting import undo_sorting
from .options import option, read_options
from .run_command import script

SHOWN_FILES = 20


@dataclass
class UndoArguments:
    """The folder of sorted files."""

    sorted: str | None = option(
        default=None,
        help="The folder of sorted files (required), also as the first word without the name of the option: the "
        f"--predict_output of docsplit classify, or the second folder of docsplit watch, with {MANIFEST}. The original "
        "files are not touched.",
    )


def main() -> dict[str, Any]:
    """Undo a sorting; return the figures for ``--json``."""
    (arguments,) = read_options((UndoArguments,), __doc__, first=("sorted",))
    if arguments.sorted is None:
        raise ValueError("a folder must be given: the one into which docsplit classify has sorted files")
    folder = Path(arguments.sorted)
    undone = undo_sorting(folder)
    print(f"{undone.removed:,} files were removed from {folder}.")
    if undone.missing:
        print(f"Files that were gone already: {undone.missing:,}.")
    _print_kept("they were changed since they were sorted", undone.changed, folder)
    _print_kept("their originals are gone or were changed", undone.without_original, folder)
    if (folder / MANIFEST).exists():
        print(f"To sort files into {folder} again, move these away, and run docsplit undo once more.")
    return {"folder": str(folder), **undone._asdict()}


def _print_kept(reason: str, names: list[str], folder: Path) -> None:
    """Print the files that stay for a reason, if there are any."""
    if not names:
        return
    print(f"Files that stay, as {reason}: {len(names):,}.")
    for name in names[:SHOWN_FILES]:
        print(f"  {name}")
    if len(names) > SHOWN_FILES:
        print(f"  ... all in {folder / MANIFEST}")


run = script(main, "To continue, run the same command again.")
