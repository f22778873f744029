"""Find the files of a folder, or of a pattern."""

from __future__ import annotations

import glob
import logging
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

SYSTEM_FILES = ("thumbs.db", "desktop.ini", "__macosx")
HIDDEN = "hidden or of the system"
OUTSIDE = "links that leave the folder"
OTHER = "devices or pipes"


def find_files(source: str | Path, recursive: bool = True) -> list[Path]:
    """Find files.

    Args:
        source: A file, a folder, or a pattern such as ``"inbox/**/*.pdf"``.
        recursive: Whether to look in sub-folders of a folder.

    Returns:
        The files, sorted by their paths. Hidden files, files of the system (``Thumbs.db``) and of Word (``~$...``), and
        links that leave the folder are left out, and counted in the log.

    Raises:
        FileNotFoundError: If there is no such file, or none matches.
    """
    left_out: Counter[str] = Counter()
    if os.path.isfile(source):
        return [Path(source)]
    if os.path.isdir(source):
        found = sorted(_files_in(Path(source), recursive, left_out), key=lambda path: path.as_posix())
    else:
        matches = sorted(Path(match) for match in glob.glob(str(source), recursive=True))
        found = [path for path in matches if path.is_file() and not is_hidden(path.name)]
    if left_out:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        logger.warning(f"Left out of {source}: {counts}.")
    if not found:
        raise FileNotFoundError(f"There is no file in {str(source)!r}: give a file, a folder, or a pattern in quotes.")
    return found


def _files_in(folder: Path, recursive: bool, left_out: Counter[str]) -> Iterator[Path]:
    """Yield the files of a folder; folders behind links are not entered."""
    root = Path(os.path.realpath(folder))
    waiting = [folder]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            path = Path(entry.path)
            if is_hidden(entry.name):
                left_out[HIDDEN] += 1
            elif entry.is_dir(follow_symlinks=False):
                if recursive:
                    waiting.append(path)
            elif entry.is_symlink() and not _leads_to_file_in(path, root):
                left_out[OUTSIDE] += 1
            elif entry.is_file():
                yield path
            else:
                left_out[OTHER] += 1


def _leads_to_file_in(link: Path, root: Path) -> bool:
    """Whether a link leads to a regular file in a folder."""
    target = Path(os.path.realpath(link))
    return target.is_relative_to(root) and target.is_file()


def is_hidden(name: str) -> bool:
    """Whether a name is that of a hidden file, or of one that a system or Word makes."""
    return name.startswith((".", "~$")) or name.lower() in SYSTEM_FILES
