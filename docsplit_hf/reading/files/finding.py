"""Find the files of a folder, or of a pattern; name them, and refuse paths that are mistyped."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import glob
import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..characters import replace_lone_surrogates

logger = logging.getLogger(__name__)

SYSTEM_FILES = ("thumbs.db", "desktop.ini", "__macosx")
HIDDEN = "hidden or of the system"
OUTSIDE = "links that leave the folder, or lead to a folder"
OTHER = "devices or pipes"
ANY_FOLDERS = "**"  # in a pattern: folders at any depth, or none
ALL_FILES = (ANY_FOLDERS, "*")
TEXT_FILES = (ANY_FOLDERS, "*.[tT][xX][tT]")


class FileInput(NamedTuple):
    """A file to read, and its name in answers and data sets."""

    path: Path
    name: str


def files_of(source: str | Path) -> list[FileInput]:
    """Find the files of a file, a folder or a pattern; those of a folder are named by their path below it."""
    root = Path(source) if os.path.isdir(source) else None
    return [named_file(path, root) for path in find_files(source)]


def named_file(path: Path, root: Path | None = None) -> FileInput:
    """A file with its path below a folder as its name, or as it was given.

    Names that are not in UTF-8, which have lone surrogates here, get replacement characters: no table holds them.
    """
    return FileInput(path, replace_lone_surrogates((path.relative_to(root) if root else path).as_posix()))


def find_files(source: str | Path) -> list[Path]:
    """Find files.

    Args:
        source: A file, a folder, which is read with its sub-folders, or a pattern such as ``"inbox/**/*.pdf"``.

    Returns:
        The files, sorted by their paths. Hidden files, files of the system (``Thumbs.db``) and of Word (``~$...``), and
        links that leave the folder are left out, and counted in the log. The folder of a pattern is the part before its
        first wildcard.

    Raises:
        FileNotFoundError: If there is no such file, or none matches.
    """
    if os.path.isfile(source):
        return [Path(source)]
    folder = Path(source)
    pattern: Sequence[str] = ALL_FILES
    if not folder.is_dir():
        folder, pattern = _folder_and_pattern(folder)
    left_out: Counter[str] = Counter()
    found = sorted(files_in(folder, pattern, left_out), key=lambda path: path.as_posix())
    log_left_out(source, left_out)
    if not found:
        raise FileNotFoundError(f"There is no file in {str(source)!r}: give a file, a folder, or a pattern in quotes.")
    return found


def files_in(folder: Path, pattern: Sequence[str], left_out: Counter[str]) -> Iterator[Path]:
    """Yield the files of a folder that match a pattern; folders behind links are not entered.

    Args:
        folder: The folder; nothing is found if there is none. It may be a link.
        pattern: The names or wildcards of the folders on the way to a file, and of the file: ``("**", "*.pdf")``.
        left_out: Counts what matches and is left out, by reason.

    Yields:
        The paths, in no order.
    """
    root = Path(os.path.realpath(folder))
    waiting = [(folder, {tuple(pattern)})] if folder.is_dir() else []
    while waiting:
        parent, patterns = waiting.pop()
        for entry in os.scandir(parent):
            path = Path(entry.path)
            rest = _rest_of_patterns(patterns, entry.name)
            is_file = not path.is_dir()
            matches = () in rest
            rest.discard(())
            if not (matches if is_file else rest):
                continue
            if is_hidden(entry.name):
                left_out[HIDDEN] += 1
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((path, rest))
            elif entry.is_symlink() and not _leads_to_file_in(path, root):
                left_out[OUTSIDE] += 1
            elif entry.is_file():
                yield path
            else:
                left_out[OTHER] += 1


def log_left_out(source: str | Path, left_out: Counter[str]) -> None:
    """Log what was left out of a folder or pattern, once in a process that finds its files several times."""
    if left_out:
        _log_once(f"Left out of {source}: {', '.join(f'{count} {reason}' for reason, count in left_out.items())}.")


@functools.cache
def _log_once(message: str) -> None:
    """Log a message, unless it was logged before."""
    logger.warning(message)


def _folder_and_pattern(source: Path) -> tuple[Path, list[str]]:
    """Split a pattern into the folder before its first wildcard and the parts behind it."""
    folder = Path(source.anchor)
    parts = list(source.parts[1:] if source.anchor else source.parts)
    while parts and (not glob.has_magic(parts[0]) or (folder / parts[0]).exists()):
        folder /= parts.pop(0)
    if parts and parts[-1] == ANY_FOLDERS:
        parts.append("*")
    return folder, parts


def _rest_of_patterns(patterns: set[tuple[str, ...]], name: str) -> set[tuple[str, ...]]:
    """What patterns ask for below an entry of this name; the empty rest means that the entry itself matches."""
    rest = set()
    for pattern in patterns:
        for number, part in enumerate(pattern):
            if part != ANY_FOLDERS:
                if fnmatch.fnmatch(name, part):
                    rest.add(pattern[number + 1 :])
                break
            rest.add(pattern[number:])
    return rest


def _leads_to_file_in(link: Path, root: Path) -> bool:
    """Whether a link leads to a regular file in a folder."""
    target = Path(os.path.realpath(link))
    return target.is_relative_to(root) and target.is_file()


def is_hidden(name: str) -> bool:
    """Whether a name is that of a hidden file, or of one that a system or Word makes."""
    return name.startswith((".", "~$")) or name.lower() in SYSTEM_FILES


def refuse_mistyped_path(name: str) -> None:
    """Refuse a missing path, or a name similar to that of a folder here, before the Hub is asked for it."""
    path = Path(name)
    if path.exists():
        return
    siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    cutoff = 0.75 if path.suffix else 0.85  # a name with an ending is more likely a file than a name on the Hub
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=cutoff)
    if near or path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2:
        hint = f" Did you mean {str(path.parent / near[0])!r}?" if near else ""
        raise FileNotFoundError(f"There is no file or folder {name!r}.{hint}")
