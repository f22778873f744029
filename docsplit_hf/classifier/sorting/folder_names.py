"""Names of folders and files that are safe on every system, made of labels and of file names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

UNSURE_FOLDER = "_unsure"
FAILED_FOLDER = "_failed"
MAX_NAME_BYTES = 120  # file systems allow 255, and a number may be added
MAX_ENDING_BYTES = 10
EMPTY_NAME = "_"
_FORBIDDEN = re.compile(r'[\\/:*?"<>|]')
# Names of devices in Windows, also with an ending.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])( *\..*)?", re.IGNORECASE)


def safe_name(name: str) -> str:
    """Return a name that is a plain file name on every system, as similar to the given one as possible."""
    letters = [letter if _is_harmless(letter) else "_" for letter in unicodedata.normalize("NFC", name)]
    name = "".join(letters).strip()
    if len(name.encode()) > MAX_NAME_BYTES:  # a short ending of a file stays
        ending = _ending_of(name)
        room = MAX_NAME_BYTES - len(ending.encode())
        stem = name.removesuffix(ending).encode()[:room].decode(errors="ignore")
        name = f"{stem}{ending}"
    while unicodedata.normalize("NFKC", name).endswith((".", " ")):
        name = name[:-1]
    if name.startswith(".") or _RESERVED.fullmatch(unicodedata.normalize("NFKC", name)):
        name = f"_{name}"
    return name or EMPTY_NAME


def folders_of_labels(labels: Iterable[str], earlier: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a folder name for each label; different labels get different ones on systems that ignore case, too.

    ``earlier``: labels that have a folder already.
    """
    folders = dict(earlier or {})
    taken = {folded(name) for name in (UNSURE_FOLDER, FAILED_FOLDER, *folders.values())}
    for label in sorted(set(labels) - folders.keys()):
        folders[label] = free_name(safe_name(label), taken)
        taken.add(folded(folders[label]))
    return folders


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, or the first of "name (2)", "name (3)", ... that is not taken; the ending of a file stays."""
    ending = _ending_of(name)
    stem = name.removesuffix(ending)
    number = 1
    candidate = name
    while folded(candidate) in taken:
        number += 1
        candidate = f"{stem} ({number}){ending}"
    return candidate


def folded(name: str) -> str:
    """Return the form in which names are compared: without case and variants of letters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _ending_of(name: str) -> str:
    """The ending of a file name with its dot, such as ".pdf"; empty if there is none, or it is long."""
    stem, dot, ending = name.rpartition(".")
    return f"{dot}{ending}" if stem and len(ending.encode()) <= MAX_ENDING_BYTES else ""


def _is_harmless(letter: str) -> bool:
    """Whether a letter, and what some systems take it for, may be in a file name everywhere."""
    plain = unicodedata.normalize("NFKC", letter)
    return not _FORBIDDEN.search(plain) and not any(unicodedata.category(part).startswith("C") for part in plain)
