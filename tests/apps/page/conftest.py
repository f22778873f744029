"""The page in a process of its own, and a real browser."""

import socket
import time
import urllib.request
from contextlib import contextmanager

import pytest

from benchmarks.served import START_SECONDS

from ...end_to_end.forked import start_script

# Texts of visitors are kept in a folder of the test instead of the user's own.
PAGE = """
from pathlib import Path
from huggingface_hub import constants
constants.HF_HOME = str(Path(__file__).parent / "home")
from docsplit_hf.apps.cli.demo import main
main()
"""


@pytest.fixture(scope="session")
def shared():
    """The encoder of a server."""
    from docsplit_hf.apps.page.sessions import SharedModel

    return SharedModel()


@contextmanager
def serving(folder, *options):
    """Serve a page with these options in a process; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "page.py").write_text(PAGE)
    log = folder / "log"
    page = start_script(
        folder / "page.py",
        f"--port={port}",
        *options,
        log=log,
        folder=folder,
        GRADIO_TEMP_DIR=str(folder / "uploads"),
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                urllib.request.urlopen(url).close()
                break
            except OSError:
                assert page.is_alive() and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
        yield url
    finally:
        page.terminate()
        page.join(20)


PROXY_NAME = "docs.example.org"  # of a proxy in front of the server


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory):
    """Folder of the server of ``address``, with texts of visitors, uploads and a log."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def address(server, server_folder):
    """Address of a page with small limits."""
    with serving(server_folder, "--max_rows=1000", "--max_megabytes=80", f"--allowed_hosts={PROXY_NAME}") as url:
        yield url


@pytest.fixture
def open_page(browser, address):
    """Open the page in a new browser session; check at the end that no other host was requested."""
    contexts = []
    requested = []
    complaints = []

    def open_page(width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 844}, **options)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert [url for url in requested if not url.startswith((address, "data:", "blob:"))] == []
