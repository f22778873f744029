"""Uploaded files, by a reader that stands in for the one of another installation option."""

import io
from types import SimpleNamespace

import pytest
from starlette.datastructures import FormData, UploadFile

from docsplit_hf.serving import uploads
from docsplit_hf.serving.errors import Refused
from docsplit_hf.serving.uploads import file_reader, text_of_upload, upload_of


def read_file(path):
    """Read a text file; refuse others with their path, as the reader does."""
    if path.suffix not in (".txt", ""):
        raise ValueError(f"{path} is not read: unknown format.")
    return SimpleNamespace(text=path.read_text())


def upload(name, content=b"The river."):
    return UploadFile(io.BytesIO(content), filename=name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\files\\b.txt", "b.txt"),
        ("", "file"),
        (None, "file"),
        ("x" * 300, "x" * 200),
        ("odd.t\0t", "odd.t\0t"),
    ],
)
def test_a_name_names_no_path_here(name, shown):
    assert text_of_upload(read_file, upload(name)) == (shown, "The river.")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [("/tmp/a.xyz", b"a", "a.xyz is not read: unknown format."), ("a.txt", b" \n", "a.txt has no text.")],
)
def test_a_file_that_cannot_be_read_is_refused_without_a_path(name, content, sentence):
    with pytest.raises(Refused) as refused:
        text_of_upload(read_file, upload(name, content))
    assert refused.value.message == sentence


def test_parts_of_a_form():
    file = upload("a.txt")
    found = upload_of(FormData([("file", file), ("file", file), ("model", "kinds"), ("top_k", "2")]))
    assert found == ([file, file], {"top_k": "2"}, "kinds")
    with pytest.raises(Refused, match="Upload a file"):
        upload_of(FormData([("file", "text")]))


def test_without_the_reader_files_are_refused(monkeypatch):
    monkeypatch.setattr(uploads, "READER", "docsplit_hf.text.no_such_reader")
    with pytest.raises(Refused, match="reads no files"):
        file_reader()
