"""Each module of benchmarks/ and experiments/ can be imported: few of them are run by a test."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # a rival that is not installed
        if error.name.split(".")[0] in ("benchmarks", "docsplit_hf", "experiments"):
            raise
"""


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["benchmarks", "experiments"])
def test_each_module_can_be_imported(folder):
    files = [file.relative_to(ROOT) for file in sorted((ROOT / folder).rglob("*.py"))]
    names = [".".join(file.with_suffix("").parts) for file in files if file.name != "__main__.py"]
    run = subprocess.run([sys.executable, "-c", IMPORT, *names], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
