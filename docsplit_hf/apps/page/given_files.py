"""Uploaded files with the names that they have in the visitor's folder, and the labels that its sub-folders give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

SLASH = "\u2215"  # in place of "/" in the name of an upload, put there by page.js: Gradio keeps no folders


class GivenFile(NamedTuple):
    """An uploaded file, and its name, with folders if it was in some."""

    path: Path
    name: str


def given_files(paths: Iterable[str]) -> list[GivenFile]:
    """Name uploaded files, and sort them; a name comes from the browser, is only shown, and leads nowhere."""
    given: list[GivenFile] = []
    for path in map(Path, paths):
        folders = [part for part in path.name.split(SLASH) if part not in ("", ".", "..")]
        given.append(GivenFile(path=path, name="/".join(folders) or path.name))
    return sorted(given, key=lambda file: file.name)


def below_common_folder(names: Sequence[str]) -> list[str]:
    """The names below the folder that all of them are in, as a folder on the disk names its files."""
    folders = {name.partition("/")[0] for name in names}
    if len(folders) == 1 and all("/" in name for name in names):
        return [name.partition("/")[2] for name in names]
    return list(names)


def folder_labels(names: Sequence[str]) -> list[str] | None:
    """The first sub-folder of each file as its label; None if there are not two, or a file is in none."""
    labels = [name.partition("/")[0] for name in names]
    return labels if len(set(labels)) > 1 and all("/" in name for name in names) else None
