"""The page as a real process, and a real browser."""

import socket
import time
import urllib.request

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


@pytest.fixture(scope="session")
def address(server, tmp_path_factory):
    """The address of a page with small limits."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("server")
    (folder / "page.py").write_text(PAGE)
    limits = (f"--port={port}", "--max_rows=1000", "--max_megabytes=80")
    log, uploads = folder / "log", str(folder / "uploads")
    page = start_script(folder / "page.py", *limits, log=log, folder=folder, GRADIO_TEMP_DIR=uploads)
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


# Nothing moves: a third of what the browser does is to draw again what does.
STILL = """
document.addEventListener("DOMContentLoaded", () => {
    const style = document.createElement("style");
    style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important; }";
    document.head.append(style);
});
"""


@pytest.fixture(scope="module")
def new_visitor(browser):
    """Makes a browser of a visitor's own, with nothing kept in it; also without what others have loaded."""
    contexts = []

    def new_visitor():
        context = browser.new_context()
        context.add_init_script(STILL)
        context.set_default_timeout(20_000)
        contexts.append(context)
        return context

    yield new_visitor
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def visitor(new_visitor):
    """The browser that visitors have one after the other: what it has loaded it need not load again."""
    return new_visitor()


@pytest.fixture
def open_page(visitor, new_visitor, address):
    """Opens the page in a session of its own; at the end nothing has been asked of another host."""
    pages, asked, complaints = [], [], []

    def open_page(width=1280, color_scheme="light"):
        page = (new_visitor() if pages else visitor).new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=color_scheme)
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.evaluate("localStorage.clear()")  # by which the next one is another visitor
        page.close()
    assert not complaints
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
