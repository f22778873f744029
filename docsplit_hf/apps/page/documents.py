"""Documents of visitors (PDF, Word, mail, ...): read, added, and classified, with the pages that decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...reading.files.failures import FailedFile
from ...reading.files.finding import is_hidden
from ...reading.files.ocr import installed_engine
from ...reading.files.options import MEGABYTE, FileOptions
from ...reading.files.places import FileText
from ...reading.files.reader import read_files
from .changes import add_texts
from .given_files import GivenFile, below_common_folder, folder_labels
from .sessions import PageLimits, PlannedText, Row, Session, counted
from .uploads import LabeledTexts, shortened

FAILED_HEADERS = ["File", "Why it was not read", "What to do"]


class Documents(NamedTuple):
    """Texts of files with their places, and the files that could not be read.

    Attributes:
        texts: The texts with their files and places, as a pipeline takes them.
        files: The file of each text.
        labels: The label of each text by its sub-folder; None if sub-folders give no labels.
        failed: The files that could not be read.
    """

    texts: list[dict[str, Any]]
    files: list[Path]
    labels: list[str] | None
    failed: list[FailedFile]

    @property
    def failed_rows(self) -> list[list[str]]:
        """Rows of a table of the files that could not be read."""
        return [[one.file, shortened(_reason(one), 90), one.remedy] for one in self.failed]

    def failed_summary(self) -> str:
        """Describe how many files could not be read; empty if all were."""
        return f" {counted(len(self.failed), 'file')} could not be read: see the list." if self.failed else ""

    def to_classify(self) -> list[PlannedText]:
        """The documents that are classified."""
        return [
            PlannedText(text["file"], text, row={"file": text["file"]}, file=file)
            for text, file in zip(self.texts, self.files, strict=True)
        ]

    def unread(self) -> list[Row]:
        """What the file of the answers says of the files that could not be read."""
        return [{"file": one.file, "reason": _reason(one)} for one in self.failed]


def _reason(failed: FailedFile) -> str:
    """The reason with its details."""
    return f"{failed.reason} ({failed.detail})" if failed.detail else failed.reason


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
    folders = folder_labels(names)
    texts: list[dict[str, Any]] = []
    files: list[Path] = []
    labels: list[str] = []
    failed: list[FailedFile] = []
    for i, read in enumerate(read_files(paths, options)):
        if isinstance(read, FileText):
            places = [place._asdict() for place in read.places]
            texts.append({"text": read.text, "file": names[i], "places": places})
            files.append(paths[i])
            if folders is not None:
                labels.append(folders[i])
        else:
            failed.append(read._replace(file=names[i]))
    return Documents(texts=texts, files=files, labels=labels if folders is not None else None, failed=failed)


def add_files(session: Session, given: Documents, label: str) -> str:
    """Add documents, refit, and return a summary.

    All get the given label; without one they get those of their sub-folders, or none.
    """
    label = label.strip()
    labels = given.labels if given.labels is not None and not label else [label or None] * len(given.texts)
    return f"{add_texts(session, LabeledTexts(given.texts, labels))}{given.failed_summary()}"
