"""The page as a real process, and a real browser."""

import socket
import time
import urllib.request
from contextlib import contextmanager

import pytest

from ..end_to_end.forked import start_script

# Where it keeps what visitors add is a folder of the tests, not of who runs them.
PAGE = """
from pathlib import Path
from huggingface_hub import constants
constants.HF_HOME = str(Path(__file__).parent / "home")
from docsplit_hf.demo.__main__ import main
main()
"""


@pytest.fixture(scope="session")
def shared():
    """The encoder of a server."""
    from docsplit_hf.demo.sessions import SharedModel

    return SharedModel()


@contextmanager
def serving(folder, *options):
    """A page with these options, as a process; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "page.py").write_text(PAGE)
    log, uploads = folder / "log", str(folder / "uploads")
    page = start_script(folder / "page.py", f"--port={port}", *options, log=log, folder=folder, GRADIO_TEMP_DIR=uploads)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1_200):
            try:
                urllib.request.urlopen(url).close()
                break
            except OSError:
                assert page.is_alive(), log.read_text()
                time.sleep(0.1)
        yield url
    finally:
        page.terminate()
        page.join(20)


PROXY_NAME = "docs.example.org"  # of a proxy in front of the server


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory):
    """Where the server of ``address`` writes: what visitors add, uploads, its log."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def address(server, server_folder):
    """The address of a page with small limits."""
    options = ("--max_rows=1000", "--max_megabytes=80", f"--allowed_hosts={PROXY_NAME}")
    with serving(server_folder, *options) as url:
        yield url


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
