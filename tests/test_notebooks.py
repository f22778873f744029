"""The notebooks of the examples: they print what is stored in them."""

import ast
import contextlib
import io
import runpy
import tempfile

import datasets
import nbformat
import pytest
import transformers

from .code_blocks import compare, embed_once
from .commands import ROOT

FOLDER = ROOT / "examples" / "notebooks"
EXECUTE = runpy.run_path(str(FOLDER / "execute.py"))["execute"]


def outputs(cell):
    return "".join(output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", ()))


def run(source, namespace):
    """What a cell prints, and its last value, in this process: a kernel takes seconds to import the libraries."""
    hidden = source.startswith("%%capture\n")
    tree = ast.parse(source.removeprefix("%%capture\n"))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), namespace)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    return "" if hidden else printed.getvalue() + ("" if value is None else repr(value))


@pytest.fixture
def progress_bars():
    """A notebook turns them off."""
    yield
    datasets.enable_progress_bars()
    transformers.logging.enable_progress_bar()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path, progress_bars, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    embed_once(monkeypatch)
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    namespace = {}
    for cell in cells:
        compare(outputs(cell), run(cell.source, namespace))
    assert sum(map(bool, map(outputs, cells))) > 2
    assert not any(place in path.read_text() for place in (str(ROOT), tempfile.gettempdir(), "site-packages"))


def test_notebooks_are_executed_by_a_kernel(tmp_path):
    cell = nbformat.v4.new_code_cell("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": {"name": "python3", "display_name": "P"}})
    nbformat.write(notebook, tmp_path / "own.ipynb")
    [executed] = EXECUTE(tmp_path / "own.ipynb").cells
    assert outputs(executed) == "out\n42"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_installs_the_wheel_beside_it_where_the_package_is_missing(path, tmp_path, monkeypatch):
    source = next(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docsplit_hf-0.1.0-py3-none-any.whl").touch()
    asked = []
    monkeypatch.setattr("subprocess.run", lambda command, check: asked.append(command[1:]))
    exec(source, {})
    assert asked == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec(source, {})
    assert asked == [["-m", "pip", "install", "--quiet", "docsplit_hf-0.1.0-py3-none-any.whl"]]
