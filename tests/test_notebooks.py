"""The notebooks of the examples, executed anew: they print what is stored in them."""

import runpy
import tempfile

import nbformat
import pytest

from .code_blocks import compare
from .commands import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def outputs(notebook):
    return [
        output.get("text") or output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path):
    stored = outputs(nbformat.read(path, as_version=4))
    printed = outputs(runpy.run_path(str(path.parent / "execute.py"))["execute"](path))
    assert len(stored) == len(printed) > 3
    for shown, new in zip(stored, printed, strict=True):
        compare(shown, new)
    assert not any(place in path.read_text() for place in (str(ROOT), tempfile.gettempdir(), "site-packages"))
