"""Uploaded files: their names, what cannot be read, and threads of their own."""

import asyncio
import io
import json
import threading
from types import SimpleNamespace

import httpx
import pytest
from starlette.datastructures import UploadFile

from docsplit_hf.apps.server.access import Access
from docsplit_hf.apps.server.app import make_app
from docsplit_hf.apps.server.routes.classify import name_of, text_of_upload
from docsplit_hf.apps.server.served_folders import ServedFolder
from docsplit_hf.apps.server.server import Server
from docsplit_hf.apps.server.settings import ServerSettings
from docsplit_hf.apps.server.states import Encoders
from docsplit_hf.reading.files import reader
from docsplit_hf.reading.files.failures import UNKNOWN_FORMAT, UnreadableFile

from ...event_loops import run_elsewhere
from ...reading.files.sample_files import make_pdf


@pytest.fixture
def quick_reader(monkeypatch):
    """Read text files in this process, and refuse others with their path, as the reader does."""

    def read_file(path):
        if path.suffix not in (".txt", ""):
            raise UnreadableFile(str(path), UNKNOWN_FORMAT, "Convert it.", f"{path} is odd")
        return SimpleNamespace(text=path.read_text())

    monkeypatch.setattr(reader, "read_file", read_file)


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
def test_a_name_names_no_path_here(quick_reader, name, shown):
    assert (name_of(upload(name)), text_of_upload(upload(name))) == (shown, "The river.")


@pytest.mark.parametrize(
    ("name", "content", "reason", "detail"),
    [("/tmp/a.xyz", b"a", UNKNOWN_FORMAT, "a.xyz is odd"), ("a.txt", b" \n", "empty", "")],
)
def test_a_file_that_cannot_be_read_is_named_without_a_path(quick_reader, name, content, reason, detail):
    failed = text_of_upload(upload(name, content))
    assert (failed.file, failed.reason, failed.detail) == (name.rpartition("/")[2], reason, detail)


def test_a_scan_beside_a_file_that_is_read(shared_server, loaded):
    text = "The river feeds the valley."
    files = [("file", ("river.txt", text.encode())), ("file", ("scan.pdf", make_pdf([""], picture_on=[0])))]
    address = f"{shared_server.address}/v1/classify"
    answer = httpx.post(address, files=files, timeout=120).json()
    assert answer["files"] == ["river.txt", "scan.pdf"]
    read, scan = answer["answers"]
    assert read["label"] == loaded(text)[0]["label"]
    assert (scan["label"], scan["file"], scan["reason"]) == (None, "scan.pdf", "scanned, without text")
    assert "OCR" in scan["remedy"]
    none = httpx.post(address, files={"other": b"a"}, timeout=120)
    assert (none.status_code, none.json()["error"]["field"]) == (422, "file")
    refused = httpx.post(address, files=files[1:], timeout=120)
    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("scan.pdf is not read: scanned, without text")


def test_files_that_are_read_slowly_hold_up_no_texts(fitted_folder, monkeypatch):
    """More files than there are threads wait for their reader, and a request with many texts is answered."""
    is_released = threading.Event()
    tokens = Access({}, {})
    classifiers = {"subjects": ServedFolder("subjects", fitted_folder, Encoders())}
    server = Server(classifiers, ServerSettings(), tokens)

    def read_file(path):
        assert is_released.wait(timeout=120)
        return SimpleNamespace(text="The river.")

    monkeypatch.setattr(reader, "read_file", read_file)

    async def ask():
        transport = httpx.ASGITransport(make_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120) as client:
            files = {"file": ("a.txt", b"a")}
            slow = [asyncio.create_task(client.post("/v1/classify", files=files)) for _ in range(40)]
            await asyncio.sleep(0.2)
            many = await asyncio.wait_for(client.post("/v1/classify", json={"texts": ["The river."] * 101}), 60)
            assert not any(task.done() for task in slow)
            is_released.set()
            return many, await asyncio.gather(*slow)

    many, slow = run_elsewhere(ask())
    server.close()
    assert len(many.json()["answers"]) == 101
    assert {answer.status_code for answer in slow} == {200}
    assert json.loads(slow[0].content)["files"] == ["a.txt"]
