"""Texts of uploaded files."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import FormData, UploadFile

from ...reading.files.failures import EMPTY, FailedFile, UnreadableFile, failed_file
from .errors import unprocessable

UPLOADED = "multipart/form-data"
SUFFIX = re.compile(r"\.\w{1,10}")
LONGEST_NAME = 200  # characters


class Upload(NamedTuple):
    """The uploaded files, the options beside them, and the name of the classifier."""

    files: list[UploadFile]
    options: dict[str, str]
    model: str | None


class FileOfText(NamedTuple):
    """The name of an uploaded file, and its text."""

    name: str
    text: str


def upload_of(form: FormData) -> Upload:
    """The parts of a form: ``file``, once or several times, ``model``, and options of answers."""
    files = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
    if not files:
        raise unprocessable('Upload a file in the field "file".', "file", "missing")
    options = {name: value for name, value in form.items() if isinstance(value, str)}
    model = options.pop("model", None)
    return Upload(files, options, model)


def text_of_upload(upload: UploadFile) -> FileOfText | FailedFile:
    """Read an uploaded file. Its name is shown and gives the suffix, but names no path here."""
    from ...reading.files.reader import read_file  # here, as a server starts without it

    name = Path((upload.filename or "").replace("\\", "/")).name[:LONGEST_NAME] or "file"
    suffix = Path(name).suffix
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"upload{suffix if SUFFIX.fullmatch(suffix) else ''}")
        with path.open("wb") as copy:
            shutil.copyfileobj(upload.file, copy)
        try:
            text = read_file(path).text
        except UnreadableFile as error:
            return FailedFile(name, error.reason, error.remedy, error.detail.replace(str(path), name))
    return FileOfText(name, text) if text.strip() else failed_file(name, EMPTY)
