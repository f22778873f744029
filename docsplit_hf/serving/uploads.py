"""Texts of uploaded files, where the reader of files is installed."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from starlette.datastructures import FormData, UploadFile

from .errors import unprocessable

UPLOADED = "multipart/form-data"
READER = "docsplit_hf.text.files"  # part of another installation option, and of later versions
SUFFIX = re.compile(r"\.\w{1,10}")
LONGEST_NAME = 200  # characters


class ReadFile(Protocol):
    """What the reader returns of a file."""

    text: str


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


def file_reader() -> Callable[[Path], ReadFile]:
    """The function that reads a file; refused where it is not installed."""
    if importlib.util.find_spec(READER) is None:
        raise unprocessable("This server reads no files: send their texts.", "file", "files_unsupported")
    return importlib.import_module(f"{READER}.reader").read_file


def text_of_upload(read_file: Callable[[Path], ReadFile], upload: UploadFile) -> FileOfText:
    """Read an uploaded file. Its name is shown and gives the suffix, but names no path here."""
    name = Path((upload.filename or "").replace("\\", "/")).name[:LONGEST_NAME] or "file"
    suffix = Path(name).suffix
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"upload{suffix if SUFFIX.fullmatch(suffix) else ''}")
        with path.open("wb") as copy:
            shutil.copyfileobj(upload.file, copy)
        try:
            text = read_file(path).text
        except (ValueError, ModuleNotFoundError) as error:  # of the reader: a sentence with the reason and the remedy
            raise unprocessable(str(error).replace(str(path), name), "file", "unreadable_file") from error
    if not text.strip():
        raise unprocessable(f"{name} has no text.", "file", "empty")
    return FileOfText(name, text)
