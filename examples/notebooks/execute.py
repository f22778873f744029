"""Execute the notebooks of this folder anew, and keep what they print: ``make notebooks``."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in an empty folder; progress bars and warnings, which differ by machine, are left out."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, record_timing=False, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        nbformat.write(execute(path), path)
