"""Documents of visitors (PDF, Word, mail, ...): read, added, and classified, with the pages that decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...classifier.sorting.sorted_files import reason_of
from ...reading.files.failures import FailedFile
from ...reading.files.finding import is_hidden
from ...reading.files.options import MEGABYTE, FileOptions
from ...reading.files.places import FileText
from ...reading.files.reader import read_files
from ...reading.files.readers.ocr import installed_engine
from .changes import add_texts
from .sessions import PageLimits, PlannedText, Row, Session, counted
from .uploads import LabeledTexts, shortened

SLASH = "\u2215"  # in place of "/" in the name of an upload, put there by page.js: Gradio keeps no folders
FAILED_HEADERS = ["File", "Why it was not read", "What to do"]


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


def folder_labels(names: Sequence[str]) -> list[str] | list[None]:
    """The first sub-folder of each file as its label; all None if there are not two, or a file is in none."""
    labels = [name.partition("/")[0] for name in names]
    return labels if len(set(labels)) > 1 and all("/" in name for name in names) else [None] * len(names)


class Documents(NamedTuple):
    """Texts of files with their places, and the files that could not be read.

    Attributes:
        planned: The texts with their files and places; as label they have their sub-folder, or None.
        failed: The files that could not be read.
    """

    planned: list[PlannedText]
    failed: list[FailedFile]

    @property
    def failed_rows(self) -> list[list[str]]:
        """Rows of a table of the files that could not be read."""
        return [[one.file, shortened(reason_of(one._asdict()), 90), one.remedy] for one in self.failed]

    def failed_summary(self) -> str:
        """Describe how many files could not be read; empty if all were."""
        return f" {counted(len(self.failed), 'file')} could not be read: see the list." if self.failed else ""

    def unread(self) -> list[Row]:
        """What the file of the answers says of the files that could not be read."""
        return [{"file": one.file, "reason": reason_of(one._asdict())} for one in self.failed]


def read_documents(given: Sequence[GivenFile], limits: PageLimits, with_ocr: bool = False) -> Documents:
    """Read uploaded files in processes that are ended when a file takes too long.

    ``with_ocr``: whether to recognize the text of scanned pages.
    """
    if not given:
        raise ValueError("Choose files or a folder first.")
    limits.check_rows(len(given))
    given = [file for file in given if not any(map(is_hidden, file.name.split("/")))]  # as in a folder on the disk
    if not given:
        raise ValueError("All of these files are hidden, or of the system: choose documents.")
    options = FileOptions(max_bytes=limits.megabytes * MEGABYTE, max_characters=limits.characters)
    if with_ocr:
        options = replace(options, ocr=options.ocr or installed_engine())
    paths = [file.path for file in given]
    names = below_common_folder([file.name for file in given])
    labels = folder_labels(names)
    planned: list[PlannedText] = []
    failed: list[FailedFile] = []
    for i, read in enumerate(read_files(paths, options)):
        if isinstance(read, FileText):
            places = [place._asdict() for place in read.places]
            text = {"text": read.text, "file": names[i], "places": places}
            planned.append(PlannedText(names[i], text, row={"file": names[i]}, file=paths[i], label=labels[i]))
        else:
            failed.append(read._replace(file=names[i]))
    return Documents(planned, failed)


def add_files(session: Session, given: Documents, label: str) -> str:
    """Add documents, refit, and return a summary.

    All get the given label; without one they get those of their sub-folders, or none.
    """
    labels = [label.strip() or one.label for one in given.planned]
    texts = [one.given for one in given.planned]
    return f"{add_texts(session, LabeledTexts(texts, labels))}{given.failed_summary()}"
