"""The page as a real process, and a real browser."""

import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest


@pytest.fixture(scope="session")
def shared():
    """The encoder of a server."""
    from docsplit_hf.demo.sessions import SharedModel

    return SharedModel()


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """The address of a page with small limits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("server")
    environment = os.environ | {"HF_HOME": str(folder / "hf"), "GRADIO_TEMP_DIR": str(folder / "uploads")}
    command = [
        sys.executable,
        "-m",
        "docsplit_hf.demo",
        "--port",
        str(port),
        "--max_rows",
        "1000",
        "--max_megabytes",
        "40",
    ]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1_200):
            try:
                urllib.request.urlopen(url).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture
def open_page(browser, address):
    """Opens the page in a session of its own; at the end nothing has been asked of another host."""
    contexts, asked, complaints = [], [], []

    def open_page(width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 844}, **options)
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
