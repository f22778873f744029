"""Texts of uploaded files."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from starlette.datastructures import UploadFile

from ...reading.files.failures import EMPTY, FailedFile, UnreadableFile, failed_file

SUFFIX = re.compile(r"\.\w{1,10}")
LONGEST_NAME = 200  # characters


def name_of(upload: UploadFile) -> str:
    """The name of an uploaded file, without folders."""
    return Path((upload.filename or "").replace("\\", "/")).name[:LONGEST_NAME] or "file"


def text_of_upload(upload: UploadFile) -> str | FailedFile:
    """Read an uploaded file. Its name gives the suffix, but names no path here."""
    from ...reading.files.reader import read_file  # here, as a server starts without it

    name = name_of(upload)
    suffix = Path(name).suffix
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"upload{suffix if SUFFIX.fullmatch(suffix) else ''}")
        with path.open("wb") as copy:
            shutil.copyfileobj(upload.file, copy)
        try:
            text = read_file(path).text
        except UnreadableFile as error:
            return FailedFile(name, error.reason, error.remedy, error.detail.replace(str(path), name))
    return text if text.strip() else failed_file(name, EMPTY)
